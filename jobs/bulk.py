"""One action on several jobs: on exactly those that were named, each looked at on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from jobs.deleting import job_delete
from jobs.models import Job
from jobs.services import job_cancel
from jobs.states import TABLE, TERMINAL, Row, State
from records.tags import tag_add, tag_name, tag_remove
from workspaces.errors import Refused
from workspaces.models import User
from workspaces.services import audit

MOST = 200
ACTIONS = ("cancel", "delete", "tag", "untag")


@dataclass(frozen=True)
class Choice:
    """A job that was named, and why the action passes it over (empty: it does not)."""

    job: Job
    why_not: str

    @property
    def state(self) -> Row:
        return TABLE[State(self.job.state)]


@dataclass
class Outcome:
    done: int = 0
    passed_over: list[str] = field(default_factory=list)


def choices(jobs: QuerySet[Job], ids: list[UUID], action: str) -> list[Choice]:
    """The named jobs among ``jobs`` (what the caller may see), in the order they were named."""
    found = {job.pk: job for job in jobs.filter(pk__in=ids).select_related("project__workspace")}
    return [Choice(found[id], _why_not(found[id], action)) for id in ids if id in found]


def _why_not(job: Job, action: str) -> str:
    ended = State(job.state) in TERMINAL
    if action == "cancel" and ended:
        return "It has ended already."
    if action == "delete" and not ended:
        return "It has not ended; cancel it first."
    return ""


def jobs_bulk(*, jobs: QuerySet[Job], ids: list[UUID], action: str, actor: User, tag: str = "") -> Outcome:
    """Do it to each of the named jobs that it fits; the others are told. Raises :class:`Refused` for a bad tag."""
    chosen = choices(jobs, ids, action)
    outcome = Outcome(passed_over=[f"{choice.job.name}: {choice.why_not}" for choice in chosen if choice.why_not])
    fitting = [choice.job for choice in chosen if not choice.why_not]
    if action in ("tag", "untag"):
        change = tag_add if action == "tag" else tag_remove
        name = tag_name(tag)
        with transaction.atomic():
            change(kind="job", ids=[job.pk for job in fitting], name=name)
            for job in fitting:
                workspace = job.project.workspace
                audit(workspace=workspace, actor=actor, action=f"job.{action}", obj=job, detail={"tag": name})
        outcome.done = len(fitting)
    else:
        for job in fitting:
            _one(job, actor, action, outcome)
    if missing := len(ids) - len(chosen):
        outcome.passed_over.append(
            f"{missing} that {'is' if missing == 1 else 'are'} no longer there, or not yours to see"
        )
    return outcome


def _one(job: Job, actor: User, action: str, outcome: Outcome) -> None:
    do: Callable[..., object] = job_cancel if action == "cancel" else job_delete
    try:
        do(job=job, actor=actor)
        outcome.done += 1
    except Refused as refused:
        outcome.passed_over.append(f"{job.name}: {refused}")
