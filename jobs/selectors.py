"""Reads of jobs, starting from who asks."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from billing.selectors import cost_of
from catalog.models import Checkpoint
from compute.selectors import waiting
from jobs.models import Attempt, Job
from jobs.states import TABLE, TERMINAL, State
from records import selectors as records
from trainers.storage import Storage, StorageError
from workspaces import access
from workspaces.models import User

FIRST_LOG_LINES = 500


def jobs_visible_to(user: User) -> QuerySet[Job]:
    """Every job of this person's workspaces, newest first."""
    return access.visible(Job.objects.all(), user).select_related(
        "project__workspace", "submitted_by", "base_model", "dataset_version__dataset", "model_version__model"
    )


def updates_after(job: Job, cursor: str | None, limit: int = 5000, timeline_after: int = 0) -> dict[str, Any]:
    """What a page lacks that knows everything up to ``cursor`` (``"<attempt>:<seq>"``; None: it knows nothing).

    ``limit`` bounds how many journal events are read at once; ``more`` says that there are further ones. The job's
    own columns always come whole, of its timeline what follows the entry ``timeline_after``. ``rollouts.newest``
    changes with each new rollout. As many queries for a long life as for a short one. Raises ``ValueError`` for a
    cursor that is none.
    """
    number, seq = _parse(cursor)
    attempts = Attempt.objects.filter(job=job, number__gte=max(number, 1)).order_by("number")
    subject = ("job", job.pk)
    windows: list[records.Window] = []
    more = False
    for attempt, reached in attempts.values_list("number", "cursor"):
        after = seq if attempt == number else 0
        until = min(reached, after + limit)
        if until > after:
            windows.append((attempt, after, until))
            limit -= until - after
        number, seq = attempt, max(until, after)
        if until < reached:
            more = True
            break
    return {
        "cursor": f"{number}:{seq}",
        "more": more,
        "server_time": timezone.now().timestamp(),
        "job": job_summary(job),
        "metrics": records.points_between(subject, windows),
        "log": records.log_between(subject, windows, last=FIRST_LOG_LINES if cursor is None else None),
        "rollouts": {"newest": records.newest_rollout(subject)},
        "checkpoints": checkpoint_steps(job),
        "timeline": [
            {
                "id": entry.pk,
                "at": entry.at.timestamp(),
                "actor": entry.actor_label,
                "from": entry.from_state,
                "to": entry.to_state,
                "reason": entry.reason,
                "attempt": entry.attempt,
            }
            for entry in job.timeline.filter(pk__gt=timeline_after)
        ],
    }


def checkpoint_steps(job: Job) -> list[int]:
    """The steps of which there are checkpoints, for the marks on the charts."""
    rows = Checkpoint.objects.filter(made_by_kind="job", made_by_id=job.pk)
    return sorted(set(rows.values_list("step", flat=True)))


def _parse(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    number, _, seq = cursor.partition(":")
    if not (number.isdecimal() and seq.isdecimal() and len(number) < 10 and len(seq) < 19):
        raise ValueError("the cursor must be what the last answer gave, as 1:250")
    return int(number), int(seq)


def job_summary(job: Job) -> dict[str, Any]:
    """The state of a job as pages and programs show it."""
    state = State(job.state)
    row = TABLE[state]
    cost = cost_of("job", job.pk)
    return {
        "state": state.value,
        "label": row.label,
        "icon": row.icon,
        "tone": row.tone,
        "meaning": row.meaning,
        "terminal": state in TERMINAL,
        "actions": sorted(row.actions),
        "reason": job.reason,
        "advice": job.advice,
        "failure_kind": job.failure_kind,
        "step": job.step,
        "total_steps": job.total_steps,
        "phase": job.phase,
        "fraction": job.fraction,
        "eta_s": job.eta_s,
        "created_at": job.created_at.timestamp(),
        "started_at": job.started_at.timestamp() if job.started_at else None,
        "ended_at": job.ended_at.timestamp() if job.ended_at else None,
        "cost": str(cost.total),
        "currency": cost.currency,
        "waiting": waiting("job", job.pk) if state in (State.QUEUED, State.RECOVERING) else None,
        "result": job.result,
        "model_version": str(job.model_version_id) if job.model_version_id else None,
        "report": bool(job.report_key),
    }


def report_bytes(job: Job) -> bytes | None:
    """The job's HTML report; None when it has none, or storage has lost it."""
    if not job.report_key:
        return None
    try:
        return Storage(settings.STORAGE_URL).get_bytes(job.report_key)
    except StorageError:
        return None
