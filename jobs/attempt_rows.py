"""The attempts of a job as pages and programs show them."""

from __future__ import annotations

from typing import Any

from jobs.models import Attempt, Job
from workspaces.vault import mask_of_project

OUTCOMES = {
    "": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "paused": "paused",
    "lost": "lost",
    "not_started": "not started",
}


def attempt_rows(job: Job) -> list[dict[str, Any]]:
    """One row per attempt, in order: where, from when to when, from which step to which, how it ended, and why."""
    mask = mask_of_project(job.project_id)
    rows = Attempt.objects.filter(job=job).select_related("resumed_from").order_by("number")
    return [
        {
            "number": row.number,
            "node": row.node_address,
            "started_at": row.started_at or row.created_at,
            "ended_at": row.ended_at,
            "first_step": row.first_step,
            "last_step": row.last_step,
            "resumed_from": row.resumed_from.name if row.resumed_from else None,
            "outcome": row.outcome or "running",
            "outcome_label": OUTCOMES.get(row.outcome, row.outcome),
            "detail": mask.text(row.outcome_detail or row.leaving),
        }
        for row in rows
    ]
