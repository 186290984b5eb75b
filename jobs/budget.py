"""Pausing a job that has used up its budget."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from billing.selectors import cost_of
from jobs.models import Job
from jobs.services import HOLDER, job_pause
from jobs.states import TABLE, State, TransitionError


@dataclass(frozen=True)
class Limit:
    """A limit of the budget that is reached: the sentence that says so, and the field of ``budget`` it is about."""

    text: str
    field: str


def reached(job: Job) -> Limit | None:
    """The limit of the job's budget that is reached; None as long as none is. Minutes are those with devices."""
    budget = job.spec["budget"]
    if budget["amount"] is not None:
        cost = cost_of(HOLDER, job.pk)
        if cost.total >= Decimal(budget["amount"]):
            return Limit(f"Its budget of {budget['amount']} {cost.currency} is used up.", "amount")
    if budget["minutes"] is not None and running_time(job) >= timedelta(minutes=budget["minutes"]):
        unit = "minute" if budget["minutes"] == 1 else "minutes"
        return Limit(f"Its budget of {budget['minutes']:g} {unit} is used up.", "minutes")
    return None


def running_time(job: Job) -> timedelta:
    """How long the job's attempts have run in sum: waiting and pauses do not count."""
    now = timezone.now()
    times = job.attempts.filter(started_at__isnull=False).values_list("started_at", "ended_at")
    return sum(((ended or now) - started for started, ended in times if started is not None), timedelta())


def enforce(job: Job) -> None:
    """Pause the job if its budget is used up; the platform is the actor, and the reason says why."""
    if "pause" not in TABLE[State(job.state)].actions:
        return
    if limit := reached(job):
        try:
            job_pause(job=job, actor=None, reason=limit.text)
        except TransitionError:
            return  # it has come to its end meanwhile
