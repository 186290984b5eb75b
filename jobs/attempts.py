"""Writes of an attempt's life: it begins with a claimed grant and ends with released devices and a settled bill."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from billing.services import BEGINNING, usage_settle
from catalog.models import Checkpoint
from compute import services as compute
from compute.models import Grant
from jobs import recovery, wake
from jobs.models import Attempt, Job
from jobs.retention import unfinished_delete
from jobs.services import HOLDER, job_transition
from jobs.states import State

# What comes from the task itself: it is charged, and not tried again.
OF_THE_TASK = frozenset({"bad_data", "reward_error", "out_of_memory", "not_finite"})


@transaction.atomic
def attempt_begin(*, grant_id: UUID) -> Attempt | None:
    """Claim a grant for its job and open the attempt; queued or recovering → placing.

    Idempotent: called again (a task delivered twice) it returns the attempt as long as nothing has started. None when
    there is nothing to start: the job was cancelled or paused meanwhile, or the grant is spent; its devices are then
    released.
    """
    grant = Grant.objects.select_for_update().select_related("request").get(pk=grant_id)
    known = Attempt.objects.filter(grant=grant).first()
    if known is not None:
        return known if known.started_at is None and known.ended_at is None else None
    if not compute.grant_claim(grant_id=grant_id):
        return None
    request = grant.request
    wanted = Job.objects.select_for_update(of=("self",)).filter(pk=request.holder_id, epoch=request.epoch).first()
    job = wanted and job_transition(
        job_id=wanted.pk,
        to=State.PLACING,
        only_from={State.QUEUED, State.RECOVERING},
        reason="Has its devices.",
        attempt=request.epoch,
    )
    if job is None:
        compute.grant_release(grant_id=grant_id, reason="The job no longer wants it.")
        return None
    lease = grant.leases.select_related("node").first()
    return Attempt.objects.create(
        job=job,
        number=request.epoch,
        grant=grant,
        driver=f"job-{job.pk.hex}-{request.epoch}",
        node_address=lease.node.address if lease else "",
        node_ray_id=lease.node.ray_id if lease else "",
    )


@transaction.atomic
def attempt_started(*, attempt: Attempt, pid: int | None) -> bool:
    """The driver is up; placing → starting. False when the job is ended meanwhile: the caller stops the driver."""
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk, started_at=None).update(started_at=now, last_seen_at=now, pid=pid)
    again = ""
    if attempt.number > 1:
        again = f" It goes on {recovery.resume_words(attempt.job_id, recovery.reached_step(attempt.job_id))}."
    job = job_transition(
        job_id=attempt.job_id,
        to=State.STARTING,
        only_from={State.PLACING},
        reason=f"The training process runs on {attempt.node_address}.{again}",
        attempt=attempt.number,
    )
    return job is not None


@transaction.atomic
def attempt_not_started(*, attempt: Attempt, why: str) -> None:
    """No driver could be started, none is left: give the devices back, and try elsewhere or give the job up."""
    if not _end(attempt, "not_started", why, lost_after=BEGINNING):
        return
    _go_on_or_fail(attempt, f"The training process could not be started: {why}")


@transaction.atomic
def attempt_lost(*, attempt: Attempt, why: str) -> None:
    """The driver or its node died without a last word. What no checkpoint of it kept is not charged."""
    if _end(attempt, "lost", why, lost_after=kept_until(attempt)):
        transaction.on_commit(partial(unfinished_delete, attempt=attempt), robust=True)
        _go_on_or_fail(attempt, f"Attempt {attempt.number} was lost{recovery.where_it_ended(attempt)}: {why}")


@transaction.atomic
def attempt_drain(*, attempt: Attempt, reason: str) -> bool:
    """Have an attempt write a checkpoint and leave its node, which is about to go; the job then goes on elsewhere.

    ``reason`` is a sentence for the timeline. False when there is no such attempt any more, or it is leaving already.
    """
    return bool(Attempt.objects.filter(pk=attempt.pk, ended_at=None, leaving="").update(leaving=reason.strip()[:300]))


@transaction.atomic
def attempt_reported_end(*, attempt: Attempt, report: dict[str, Any]) -> None:
    """The driver said how it ended, everything it wrote is stored, and its process is confirmed gone."""
    state, error = report["state"], report.get("error") or {}
    fault = state == "failed" and error.get("kind", "internal") not in OF_THE_TASK
    lost_after = kept_until(attempt) if fault else None
    if not _end(attempt, state, error.get("message", ""), lost_after=lost_after):
        return
    if state == "succeeded":
        # The model, the report and the mail are made by a task; until then the job is finishing.
        close(attempt, State.FINISHING, "Training is over.", result=report.get("result"), fraction=1.0)
        transaction.on_commit(partial(wake.job_finishing, attempt.job_id), robust=True)
    elif state == "cancelled":
        close(attempt, State.CANCELLED, "Stopped.")
    elif state == "paused":
        _paused(attempt)
    elif error.get("retry"):
        _go_on_or_fail(attempt, error.get("message", ""), error)
    else:
        _fail(attempt, error)


def kept_until(attempt: Attempt) -> datetime:
    """The instant up to which the attempt's work is in a checkpoint that counts; its beginning of time if in none."""
    rows = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=attempt.job_id, epoch=attempt.number)
    taken = [row.taken_at or row.created_at for row in rows]
    return max(taken, default=BEGINNING)


def _paused(attempt: Attempt) -> None:
    """It wrote its checkpoint and ended: because someone wants it paused, or because its node is about to go."""
    job = Job.objects.select_for_update(of=("self",)).get(pk=attempt.job_id)
    plan = recovery.resume_words(job.pk, attempt.last_step)
    if job.state in (State.PAUSING, State.CANCELLING):
        close(attempt, State.PAUSED, f"{job.reason} When resumed it goes on {plan}.", eta_s=None)
        return
    why = attempt.leaving or "It was asked to leave its node."
    recovery.ask_again(attempt, job, reason=f"{why} It goes on elsewhere {plan}.")


def _go_on_or_fail(attempt: Attempt, why: str, error: dict[str, Any] | None = None) -> None:
    job = Job.objects.select_for_update(of=("self",)).get(pk=attempt.job_id)
    if job.state == State.PAUSING:
        plan = recovery.resume_words(job.pk, attempt.last_step)
        close(attempt, State.PAUSED, f"{why} It was to be paused anyway; when resumed it goes on {plan}.", eta_s=None)
    elif job.state == State.CANCELLING:
        close(attempt, State.CANCELLED, why)
    elif not recovery.recover(attempt, why):
        if error is not None:
            _fail(attempt, error)
            return
        reason, kind, advice = recovery.gave_up(attempt, why)
        close(attempt, State.FAILED, reason, failure_kind=kind, advice=advice)


def _fail(attempt: Attempt, error: dict[str, Any]) -> None:
    close(
        attempt,
        State.FAILED,
        error.get("message") or "The training process reported an error without a message.",
        failure_kind=error.get("kind") or "internal",
        advice=error.get("advice") or "",
        failure_field=error.get("field") or "",
    )


def close(attempt: Attempt, target: State, reason: str, **fields: Any) -> None:
    """Bring the job to ``target``; a job that is being cancelled becomes cancelled instead, whatever else happened."""
    job = Job.objects.select_for_update(of=("self",)).get(pk=attempt.job_id)
    if job.state == State.CANCELLING:
        # The one who cancelled gave the reason; it stays.
        job_transition(job_id=job.pk, to=State.CANCELLED, reason=job.reason, attempt=attempt.number)
        return
    job_transition(job_id=job.pk, to=target, reason=reason, attempt=attempt.number, **fields)


def _end(attempt: Attempt, outcome: str, detail: str, *, lost_after: datetime | None) -> bool:
    """Close the attempt's row, its leases and its bill; False when that was already done."""
    ended = Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(
        ended_at=timezone.now(), outcome=outcome, outcome_detail=detail[:4000]
    )
    if not ended:
        return False
    attempt.refresh_from_db(fields=["last_step", "leaving", "ended_at", "outcome", "outcome_detail"])
    leases = compute.grant_release(grant_id=attempt.grant_id, reason=f"attempt {outcome}")
    usage_settle(
        leases=leases,
        project=attempt.job.project,
        used_by_kind=HOLDER,
        used_by_id=attempt.job_id,
        epoch=attempt.number,
        lost_after=lost_after,
    )
    return True
