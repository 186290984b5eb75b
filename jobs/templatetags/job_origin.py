"""Where a job comes from, and whether what was foretold of it came true."""

from __future__ import annotations

from typing import Any

from django import template

from jobs.models import Job
from jobs.states import State
from jobs.submission import changes_of_copy, foretold, origin_of
from workspaces.vault import mask_of_project

register = template.Library()
SHOWN = 6


@register.inclusion_tag("jobs/origin.html")
def job_origin(job: Job) -> dict[str, Any]:
    """One line or two under the facts of a job; nothing for one that has nothing to tell."""
    submission = origin_of(job)
    original = submission.copied_from if submission else None
    said, took = foretold(submission), None
    if job.state == State.SUCCEEDED and job.started_at and job.ended_at and job.epoch == 1:
        took = (job.ended_at - job.started_at).total_seconds()
    changes = changes_of_copy(job, original) if original else []
    mask = mask_of_project(job.project_id)
    return {
        "job": job,
        "original": original,
        "changes": [mask.text(str(change)) for change in changes[:SHOWN]],
        "further": max(0, len(changes) - SHOWN),
        "said": said if took is not None and said and said.seconds else None,
        "took": took,
        "right": said.right(took) if said and took is not None else None,
        "sweep": getattr(getattr(job, "sweep_member", None), "sweep", None),
    }
