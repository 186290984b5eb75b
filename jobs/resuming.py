"""Taking up a paused job again: a place in the queue, and more of the budget where that had stopped it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max
from pydantic import ValidationError

from compute import services as compute
from compute.models import Request
from jobs import budget
from jobs.models import Job
from jobs.placement import device_need
from jobs.recovery import reached_step, resume_words
from jobs.services import HOLDER, enter
from jobs.states import State, check
from trainers.spec import Budget, parse_spec
from workspaces.errors import Refused
from workspaces.models import User
from workspaces.services import audit


def job_resume(
    *, job: Job, actor: User | None, amount: Decimal | None = None, minutes: float | None = None, reason: str = ""
) -> Job:
    """Queue a paused job again; it goes on from its newest checkpoint. ``amount`` and ``minutes`` are its new budget.

    Changes nothing for a job that is queued already. Raises ``TransitionError`` for any other that is not paused, and
    :class:`Refused` naming the limit that is still reached.
    """
    with transaction.atomic():
        locked = Job.objects.select_for_update(of=("self",)).select_related("project__workspace").get(pk=job.pk)
        state = State(locked.state)
        if state == State.QUEUED:
            return locked
        check(state, State.QUEUED)
        spec = _with_budget(locked, amount, minutes)
        locked.spec = spec
        if limit := budget.reached(locked):
            raise Refused(f"{limit.text} Give it a larger one to go on.", field=limit.field)
        task = parse_spec(spec)
        need = device_need(task, locked.base_model)
        epoch = _next_epoch(locked)
        plan = resume_words(locked.pk, reached_step(locked.pk))
        compute.request_create(
            holder_kind=HOLDER,
            holder_id=locked.pk,
            epoch=epoch,
            device_kind=need.kind,
            devices=need.devices,
            tier=task.resources.tier,
        )
        words = f"{reason.strip()[:300]} " if reason.strip() else ""
        enter(
            locked,
            state,
            State.QUEUED,
            actor=actor,
            reason=f"{words}Resumed: {plan}.",
            spec=spec,
            epoch=epoch,
            fruitless=0,
        )
        audit(workspace=locked.project.workspace, actor=actor, action="job.resume", obj=locked, detail={"plan": plan})
    return locked


def _next_epoch(job: Job) -> int:
    """One more than any request of the job has had, also one that was granted and never taken up."""
    asked = Request.objects.filter(holder_kind=HOLDER, holder_id=job.pk).aggregate(newest=Max("epoch"))["newest"] or 0
    return max(asked, job.epoch) + 1


def _with_budget(job: Job, amount: Decimal | None, minutes: float | None) -> dict[str, Any]:
    given = {name: value for name, value in (("amount", amount), ("minutes", minutes)) if value is not None}
    if not given:
        return dict(job.spec)
    try:
        limits = Budget.model_validate({**job.spec["budget"], **given})
    except ValidationError as error:
        place, message = str(error.errors()[0]["loc"][0]), str(error.errors()[0]["msg"])
        raise Refused(f"The budget cannot be used: {message[:1].lower()}{message[1:]}.", field=place) from None
    return {**job.spec, "budget": limits.model_dump(mode="json")}
