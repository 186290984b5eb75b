"""Stopping a job that has used up its budget."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from billing.selectors import cost_of
from jobs.models import Job
from jobs.services import HOLDER, job_cancel


def reached(job: Job) -> str:
    """The sentence that says which limit of the job's budget is reached; empty as long as none is."""
    budget = job.spec["budget"]
    if budget["amount"] is not None:
        cost = cost_of(HOLDER, job.pk)
        if cost.total >= Decimal(budget["amount"]):
            return f"Its budget of {budget['amount']} {cost.currency} is used up."
    began = job.started_at
    if budget["minutes"] is not None and began and timezone.now() - began >= timedelta(minutes=budget["minutes"]):
        return f"Its budget of {budget['minutes']:g} minutes is used up."
    return ""


def enforce(job: Job) -> None:
    """Stop the job if its budget is used up; the platform is the actor, and the reason says why."""
    if reason := reached(job):
        job_cancel(job=job, actor=None, reason=reason)
