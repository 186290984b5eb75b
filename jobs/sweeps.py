"""Sweeps: a family of jobs made from one description, followed to its end, and stopped as one."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from billing.selectors import costs_billed
from catalog.models import RewardVersion
from jobs.models import Job, SweepMember
from jobs.models import Sweep as SweepRow
from jobs.services import job_cancel, job_note, job_submit
from jobs.states import TABLE, TERMINAL, Row, State
from records.models import Series
from trainers.spec import SpecError, TaskSpec, parse_spec
from trainers.sweep import Sweep, expand, next_rung, parse_sweep
from workspaces import access
from workspaces.models import Project, User
from workspaces.services import audit

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Member:
    """A job of a sweep as its page shows it; ``value`` is the metric that decides, None before there is one."""

    job: Job
    rung: int
    state: Row
    value: float | None
    chosen: list[tuple[str, str]]
    cost: Decimal | None
    best: bool = False


def sweeps_visible_to(user: User) -> QuerySet[SweepRow]:
    return access.visible(SweepRow.objects.all(), user).select_related("project__workspace", "submitted_by")


@transaction.atomic
def sweep_submit(
    *,
    project: Project,
    spec: dict[str, Any] | Sweep,
    submitted_by: User,
    idempotency_key: str,
    reward_version: RewardVersion | None = None,
) -> SweepRow:
    """Make all jobs of the first rung, or none. The same key in the same project gives the same sweep.

    Raises :class:`trainers.spec.SpecError` naming what cannot be run.
    """
    known = SweepRow.objects.filter(project=project, idempotency_key=idempotency_key).first()
    if known is not None:
        return known
    sweep = spec if isinstance(spec, Sweep) else parse_sweep(spec)
    tasks = expand(sweep)
    row, made = SweepRow.objects.get_or_create(
        project=project,
        idempotency_key=idempotency_key,
        defaults={
            "name": str(sweep.task.get("name") or "sweep")[:200],
            "spec": sweep.model_dump(mode="json"),
            "submitted_by": submitted_by,
        },
    )
    if made:
        _submit_rung(row, tasks, submitted_by, reward_version)
        detail = {"name": row.name, "jobs": len(tasks)}
        audit(workspace=project.workspace, actor=submitted_by, action="sweep.submit", obj=row, detail=detail)
    return row


def _submit_rung(
    row: SweepRow, tasks: Sequence[TaskSpec], actor: User, reward_version: RewardVersion | None = None
) -> None:
    for place, task in enumerate(tasks):
        job = job_submit(
            project=row.project,
            spec=task,
            submitted_by=actor,
            idempotency_key=f"sweep-{row.pk}-{row.rung}-{place}",
            reward_version=reward_version if task.reward is not None else None,
        )
        SweepMember.objects.create(sweep=row, job=job, rung=row.rung, place=place)


def sweep_advance(sweep_id: UUID) -> bool:
    """Successive halving: once a rung has ended, start the next with its best. Whether something was started."""
    with transaction.atomic():
        row = SweepRow.objects.select_for_update(of=("self",)).select_related("project__workspace").get(pk=sweep_id)
        sweep = parse_sweep(row.spec)
        members = list(row.members.filter(rung=row.rung).select_related("job"))
        if row.stopped or row.problem or sweep.method != "halving" or not members or row.submitted_by is None:
            return False
        if any(State(member.job.state) not in TERMINAL for member in members):
            return False
        values = _values([member.job for member in members if member.job.state == State.SUCCEEDED], sweep.metric)
        tasks = [parse_spec(member.job.spec) for member in members]
        following = next_rung(sweep, tasks, [values.get(member.job_id) for member in members])
        if not following:
            if len(members) > 1:
                row.problem = f"No job of the rung came to an end with {sweep.metric}, so none goes on."
                row.save(update_fields=["problem"])
            return False
        names = {task.name for task in following}
        for member in members:
            if member.job.name not in names:
                said = f"Not among the best {len(following)} of {len(members)} by {sweep.metric}; it does not go on."
                job_note(job_id=member.job_id, attempt=None, reason=said)
        row.rung += 1
        row.save(update_fields=["rung"])
        try:
            with transaction.atomic():
                _submit_rung(row, following, row.submitted_by, members[0].job.reward_version)
        except SpecError as error:
            row.problem = f"The next rung could not be started: {error}."
            row.save(update_fields=["problem"])
            return False
    return True


def sweep_cancel(*, sweep: SweepRow, actor: User) -> None:
    """Stop every job of a sweep that has not ended, and start no further one; asking twice changes nothing."""
    with transaction.atomic():
        row = SweepRow.objects.select_for_update(of=("self",)).get(pk=sweep.pk)
        if not row.stopped:
            row.stopped = True
            row.save(update_fields=["stopped"])
            audit(workspace=sweep.project.workspace, actor=actor, action="sweep.cancel", obj=row, detail={})
    for member in sweep.members.exclude(job__state__in=TERMINAL).select_related("job"):
        job_cancel(job=member.job, actor=actor, reason="Its sweep was cancelled.")


def sweeps_unfinished() -> list[UUID]:
    """Sweeps by halving whose rung has ended and whose next one was not started."""
    ids = []
    for row in SweepRow.objects.filter(stopped=False, problem="", spec__method="halving", submitted_by__isnull=False):
        states = list(row.members.filter(rung=row.rung).values_list("job__state", flat=True))
        if len(states) > 1 and all(State(state) in TERMINAL for state in states):
            ids.append(row.pk)
    return ids


def members_of(row: SweepRow) -> list[Member]:
    """Every job of a sweep, later rungs first, the best of each rung first. A fixed number of queries."""
    sweep = parse_sweep(row.spec)
    rows = list(row.members.select_related("job"))
    jobs = [member.job for member in rows]
    values, costs = _values(jobs, sweep.metric), costs_billed("job", [job.pk for job in jobs])
    sign = -1.0 if sweep.higher_is_better else 1.0
    last = max((member.rung for member in rows if member.job_id in values), default=0)
    found = [
        Member(
            job=member.job,
            rung=member.rung,
            state=TABLE[State(member.job.state)],
            value=values.get(member.job_id),
            chosen=[(path, _said(member.job.spec, path)) for path in sweep.fields],
            cost=costs.get(member.job_id),
        )
        for member in rows
    ]
    found.sort(key=lambda m: (-m.rung, m.value is None, sign * (m.value or 0.0)))
    best = next((m for m in found if m.rung == last and m.value is not None), None)
    return [replace(m, best=m is best) for m in found]


def _values(jobs: Sequence[Job], metric: str) -> dict[UUID, float]:
    rows = Series.objects.filter(subject_kind="job", subject_id__in=[job.pk for job in jobs], key=metric)
    return {
        job_id: float(value)
        for job_id, value in rows.values_list("subject_id", "last_value")
        if value is not None and math.isfinite(value)
    }


def _said(spec: dict[str, Any], path: str) -> str:
    value: Any = spec
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return f"{value:.4g}" if isinstance(value, float) else str(value)
