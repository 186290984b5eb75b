"""What the home page of a project shows: a few rows from several apps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from billing.selectors import costs_billed
from catalog import selectors as catalog
from compute.models import Request
from jobs.models import Job
from jobs.selectors import jobs_visible_to
from jobs.states import ACTIVE, TABLE, TERMINAL, Row, State
from workspaces.models import Project, User

SHOWN = 8


@dataclass(frozen=True)
class JobLine:
    """A job as one line: its state's row, why it is there, and what it came to."""

    job: Job
    state: Row
    why: str
    cost: Any
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Start:
    """How far a project has come on the way to its first job."""

    has_dataset: bool
    has_reward: bool
    has_job: bool


@dataclass(frozen=True)
class Overview:
    running: list[JobLine]
    waiting: list[JobLine]
    failed: list[JobLine]
    finished: list[JobLine]
    start: Start


def project_overview(project: Project, user: User) -> Overview:
    """What runs, what waits and why, what failed last, and the last results. A fixed number of queries."""
    jobs = jobs_visible_to(user).filter(project=project)
    active = list(jobs.filter(state__in=list(ACTIVE))[: 4 * SHOWN])
    failed = list(jobs.filter(state=State.FAILED).order_by("-ended_at")[:4])
    ended = list(jobs.filter(state__in=list(TERMINAL - {State.FAILED})).order_by("-ended_at")[:SHOWN])
    ids = [job.pk for job in (*active, *failed, *ended)]
    costs = costs_billed("job", ids)
    whys = _whys([job for job in active if job.state == State.QUEUED])
    lines = {job.pk: _line(job, costs.get(job.pk), whys.get(job.pk, "")) for job in (*active, *failed, *ended)}
    waits = (State.QUEUED, State.PAUSED)
    start = Start(
        has_dataset=catalog.datasets_visible_to(user).filter(project=project).exists(),
        has_reward=catalog.rewards_visible_to(user).filter(project=project).exists(),
        has_job=bool(ids),
    )
    return Overview(
        running=[lines[job.pk] for job in active if job.state not in waits],
        waiting=[lines[job.pk] for job in active if job.state in waits],
        failed=[lines[job.pk] for job in failed],
        finished=[lines[job.pk] for job in ended],
        start=start,
    )


def _whys(jobs: list[Job]) -> dict[Any, str]:
    """For each job in the queue, the sentence why it waits and its place."""
    rows = Request.objects.filter(
        holder_kind="job", holder_id__in=[job.pk for job in jobs], state=Request.State.WAITING
    ).values_list("holder_id", "why", "position")
    return {id: f"{why} Position {place} in the queue." if place else why for id, why, place in rows}


def _line(job: Job, cost: Any, why: str) -> JobLine:
    result = job.result or {}
    return JobLine(
        job=job,
        state=TABLE[State(job.state)],
        why=why or job.reason,
        cost=cost,
        before=_accuracy(result.get("before")),
        after=_accuracy(result.get("after")),
    )


def _accuracy(side: Any) -> float | None:
    value = side.get("accuracy") if isinstance(side, dict) else None
    return float(value) if isinstance(value, int | float) else None
