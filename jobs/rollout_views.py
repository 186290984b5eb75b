"""Parts of the rollout inspector: the groups of a step, a text in full, one prompt at two steps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.rollout_groups import rollout_page, step_choice
from jobs.views import job_of
from jobs.word_diff import word_diff
from records.models import Rollout
from records.rollout_pages import rollout_whole, samples_of_prompt, steps_of_prompt
from workspaces.models import Project
from workspaces.scope import ProjectRequest, in_project

# Of one text at once; more is only for a download.
LARGEST = 2_000_000


@require_safe
@in_project()
def job_rollouts(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """Rollouts of one step; without a step those of the newest. ``view=strip``: only the newest group, in a line."""
    job = job_of(request, job_id)
    found = rollout_page(job, request.GET)
    strip = request.GET.get("view") == "strip"
    return render(request, f"jobs/rollouts{'_strip' if strip else ''}.html", {"job": job, "rollouts": found})


@require_safe
@in_project()
def job_rollout_text(request: ProjectRequest, project: Project, job_id: UUID, rollout_id: int) -> HttpResponse:
    """The whole completion, or with ``part=prompt`` the whole prompt, as text to be put in place of the cut one."""
    job = job_of(request, job_id)
    rollout = rollout_whole(("job", job.pk), rollout_id)
    if rollout is None:
        raise Http404("There is no such sample.")
    text = rollout.prompt if request.GET.get("part") == "prompt" else rollout.completion
    return render(request, "jobs/rollout_text.html", {"text": text[:LARGEST], "left": max(0, len(text) - LARGEST)})


@require_safe
@in_project()
def job_rollout_diff(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """The same prompt (``prompt``, its key) at the steps ``a`` and ``b``, word by word; else its first and last."""
    job = job_of(request, job_id)
    key = request.GET.get("prompt", "")[:64].replace("\x00", "")
    steps = [step_choice(row) for row in steps_of_prompt(("job", job.pk), key)] if key else []
    if not steps:
        raise Http404("This job has no such prompt.")
    known = {row["at"]: row for row in steps}
    a = known.get(request.GET.get("a", ""), steps[0])
    b = known.get(request.GET.get("b", ""), steps[-1])
    if a is b and "a" not in request.GET:
        # Asked for at its first step: there is only later to compare it with.
        b = steps[-1]
    left, right = (samples_of_prompt(("job", job.pk), key, row["step"], row["phase"]) for row in (a, b))
    index = request.GET.get("i", "0")
    place = min(int(index) if index.isdecimal() and len(index) < 5 else 0, min(len(left), len(right)) - 1)
    pieces, cut = word_diff(left[place].completion, right[place].completion)
    context: dict[str, Any] = {
        "job": job, "key": key, "steps": steps, "a": a, "b": b, "left": left[place], "right": right[place],
        "pieces": pieces, "cut": cut, "place": place, "places": range(min(len(left), len(right))),
        "means": [_mean(left), _mean(right)],
    }  # fmt: skip
    return render(request, "jobs/rollout_diff.html", context)


def _mean(rows: list[Rollout]) -> float:
    return sum(row.reward for row in rows) / len(rows)
