"""Two versions of a model side by side: what they scored, and how their tasks differ."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.models import Job
from jobs.spec_diff import Change, changes_between_stored
from portal.models_pages import Lineage, lineages
from portal.registry_pages import model_of
from workspaces.models import Project
from workspaces.scope import ProjectRequest, in_project
from workspaces.vault import mask_of_project


@dataclass(frozen=True)
class Pair:
    """One measure of both, after training; ``gain`` is the second less the first."""

    label: str
    kind: str
    left: float | None
    right: float | None

    @property
    def gain(self) -> float | None:
        return None if self.left is None or self.right is None else self.right - self.left


@require_safe
@in_project()
def model_compare(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    """The versions ``a`` and ``b``; without a choice the two newest."""
    model = model_of(request, model_id)
    rows = model.versions.select_related("base_model", "checkpoint", "model").prefetch_related("aliases")
    lines = lineages(list(rows), request.user)
    known = {str(line.version.number): line for line in lines}
    right = known.get(request.GET.get("b", "")) or (lines[0] if lines else None)
    left = known.get(request.GET.get("a", "")) or (lines[1] if len(lines) > 1 else right)
    context = {"model": model, "lines": lines, "left": left, "right": right}
    if left is not None and right is not None:
        changes = _changes(left.job, right.job)
        context |= {"pairs": _pairs(left, right), "changes": changes, "comparable": changes is not None}
    return render(request, "portal/model_compare.html", context)


def _pairs(left: Lineage, right: Lineage) -> list[Pair]:
    sides = [{measure.label: measure for measure in line.measures} for line in (left, right)]
    labels = dict.fromkeys([*sides[0], *sides[1]])
    found = []
    for label in labels:
        measures = [side.get(label) for side in sides]
        kind = next(measure.kind for measure in measures if measure is not None)
        found.append(Pair(label, kind, *(measure.after if measure else None for measure in measures)))
    return found


def _changes(left: Job | None, right: Job | None) -> list[Change] | None:
    """None where a version has no task that can be read any more."""
    if left is None or right is None:
        return None
    mask = mask_of_project(left.project_id)
    return changes_between_stored(mask.value(left.spec), mask.value(right.spec))
