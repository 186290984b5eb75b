"""The page of a trained model: its versions with what they scored, and where each comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog import selectors
from catalog.models import ModelVersion
from jobs.models import Job
from jobs.selectors import jobs_visible_to
from portal.lineage import ancestor, descendants
from portal.registry_pages import model_of
from workspaces.models import Project, User
from workspaces.scope import ProjectRequest, in_project
from workspaces.vault import mask_of_project

MOVES = 50
MEASURES = (
    ("accuracy", "Accuracy, sampled", "percent"),
    ("accuracy_greedy", "Accuracy, greedy", "percent"),
    ("reward", "Reward, sampled", "number"),
    ("reward_greedy", "Reward, greedy", "number"),
    ("loss", "Loss, held-out", "number"),
)


@dataclass(frozen=True)
class Measure:
    label: str
    kind: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Lineage:
    """A version with what was measured and the job it comes from (None: it is gone, or made otherwise)."""

    version: ModelVersion
    measures: list[Measure]
    job: Job | None

    @property
    def headline(self) -> Measure | None:
        return self.measures[0] if self.measures else None


@require_safe
@in_project()
def model_detail(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    """One model: the version asked for (the newest without a choice), and the list of all."""
    model = model_of(request, model_id)
    versions = list(selectors.model_versions_visible_to(request.user).filter(model=model).prefetch_related("aliases"))
    wanted = request.GET.get("version", "")
    version = next((v for v in versions if str(v.number) == wanted), versions[0] if versions else None)
    if version is None:
        raise Http404
    lines = lineages(versions, request.user)
    shown = next(line for line in lines if line.version.pk == version.pk)
    context = {
        "model": model,
        "lines": lines,
        "shown": shown,
        "ancestor": ancestor(shown.job),
        "descendants": descendants(version, request.user),
        "aliases": model.aliases.select_related("version"),
        "moves": selectors.alias_moves(request.user, model)[:MOVES],
        "spec_json": _spec_json(shown.job),
    }
    return render(request, "portal/model.html", context)


def _spec_json(job: Job | None) -> str:
    """The task as it ran, without what must not be seen."""
    if job is None:
        return ""
    return json.dumps(mask_of_project(job.project_id).value(job.spec), indent=2, ensure_ascii=False)


def lineages(versions: list[ModelVersion], user: User) -> list[Lineage]:
    """The versions with their jobs, in two queries whatever their number."""
    ids = [version.made_by_id for version in versions if version.made_by_kind == "job"]
    jobs = jobs_visible_to(user).select_related("reward_version__reward").in_bulk(ids)
    return [Lineage(version, _measures(version.evaluation), jobs.get(version.made_by_id)) for version in versions]


def _measures(evaluation: Any) -> list[Measure]:
    sides = [evaluation.get(side) if isinstance(evaluation, dict) else None for side in ("before", "after")]
    found = []
    for key, label, kind in MEASURES:
        before, after = (_number(side.get(key)) if isinstance(side, dict) else None for side in sides)
        if before is not None or after is not None:
            found.append(Measure(label, kind, before, after))
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
