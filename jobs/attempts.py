"""Writes of an attempt's life: it begins with a claimed grant and ends with released devices and a settled bill."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from billing.models import Usage
from billing.services import usage_settle
from compute import services as compute
from compute.models import Grant
from jobs import wake
from jobs.models import Attempt, Job
from jobs.services import HOLDER, job_transition
from jobs.states import State

# A job whose attempts cannot even be started is given up after so many.
MOST_STARTS = 3


@transaction.atomic
def attempt_begin(*, grant_id: UUID) -> Attempt | None:
    """Claim a grant for its job and open the attempt; queued → placing.

    Idempotent: called again (a task delivered twice) it returns the attempt as long as nothing has started. None when
    there is nothing to start: the job was cancelled meanwhile, or the grant is spent; its devices are then released.
    """
    grant = Grant.objects.select_for_update().select_related("request").get(pk=grant_id)
    known = Attempt.objects.filter(grant=grant).first()
    if known is not None:
        return known if known.started_at is None and known.ended_at is None else None
    if not compute.grant_claim(grant_id=grant_id):
        return None
    request = grant.request
    job = job_transition(
        job_id=request.holder_id,
        to=State.PLACING,
        only_from={State.QUEUED},
        reason="Has its devices.",
        attempt=request.epoch,
    )
    if job is None or job.epoch != request.epoch:
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
    """The driver is up; placing → starting. False when the job was cancelled meanwhile: the caller stops the driver."""
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk, started_at=None).update(started_at=now, last_seen_at=now, pid=pid)
    job = job_transition(
        job_id=attempt.job_id,
        to=State.STARTING,
        only_from={State.PLACING},
        reason=f"The training process runs on {attempt.node_address}.",
        attempt=attempt.number,
    )
    return job is not None


@transaction.atomic
def attempt_not_started(*, attempt: Attempt, why: str) -> None:
    """No driver could be started, none is left: give the devices back, and queue the job again or give it up."""
    if not _end(attempt, "not_started", why, Usage.Category.LOST):
        return
    if attempt.number < MOST_STARTS:
        job = job_transition(
            job_id=attempt.job_id,
            to=State.QUEUED,
            only_from={State.PLACING},
            reason=f"The training process could not be started: {why} It is tried again.",
            attempt=attempt.number,
            epoch=attempt.number + 1,
        )
        if job is not None:
            request = attempt.grant.request
            compute.request_create(
                holder_kind=HOLDER,
                holder_id=job.pk,
                epoch=job.epoch,
                device_kind=request.device_kind,
                devices=request.devices,
                tier=request.tier,
            )
            return
    close(
        attempt,
        State.FAILED,
        f"The training process could not be started, {attempt.number} times: {why}",
        failure_kind="platform",
        advice="Ask whoever keeps this installation running to look at the cluster; nothing was charged.",
    )


@transaction.atomic
def attempt_lost(*, attempt: Attempt, why: str) -> None:
    """The driver or its node died without a last word. Nothing of this attempt is charged."""
    if _end(attempt, "lost", why, Usage.Category.LOST):
        close(
            attempt,
            State.FAILED,
            f"Training stopped at step {attempt.job.step} on {attempt.node_address or 'its node'}: {why}",
            failure_kind="platform",
            advice="This was no fault of the task. Start it again; this run is not charged.",
        )


@transaction.atomic
def attempt_reported_end(*, attempt: Attempt, report: dict[str, Any]) -> None:
    """The driver said how it ended, everything it wrote is stored, and its process is confirmed gone."""
    state = report["state"]
    if not _end(attempt, state, (report.get("error") or {}).get("message", ""), Usage.Category.WORK):
        return
    if state == "succeeded":
        # The model, the report and the mail are made by a task; until then the job is finishing.
        close(attempt, State.FINISHING, "Training is over.", result=report.get("result"), fraction=1.0)
        transaction.on_commit(partial(wake.job_finishing, attempt.job_id), robust=True)
    elif state == "cancelled":
        close(attempt, State.CANCELLED, "Stopped.")
    else:
        error = report.get("error") or {}
        close(
            attempt,
            State.FAILED,
            error.get("message") or "The training process reported an error without a message.",
            failure_kind=error.get("kind") or "internal",
            advice=error.get("advice") or "",
        )


def close(attempt: Attempt, target: State, reason: str, **fields: Any) -> None:
    """Bring the job to ``target``; a job that is being cancelled becomes cancelled instead, whatever else happened."""
    job = Job.objects.select_for_update(of=("self",)).get(pk=attempt.job_id)
    if job.state == State.CANCELLING:
        # The one who cancelled gave the reason; it stays.
        job_transition(job_id=job.pk, to=State.CANCELLED, reason=job.reason, attempt=attempt.number)
        return
    job_transition(job_id=job.pk, to=target, reason=reason, attempt=attempt.number, **fields)


def _end(attempt: Attempt, outcome: str, detail: str, category: Usage.Category) -> bool:
    """Close the attempt's row, its leases and its bill; False when that was already done."""
    ended = Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(
        ended_at=timezone.now(), outcome=outcome, outcome_detail=detail[:4000]
    )
    if not ended:
        return False
    leases = compute.grant_release(grant_id=attempt.grant_id, reason=f"attempt {outcome}")
    usage_settle(
        leases=leases,
        project=attempt.job.project,
        used_by_kind=HOLDER,
        used_by_id=attempt.job_id,
        epoch=attempt.number,
        category=category,
    )
    return True
