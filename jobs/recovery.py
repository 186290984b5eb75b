"""What happens to a job whose attempt ended by no fault of its own: it goes on elsewhere, or is given up."""

from __future__ import annotations

import random
from datetime import timedelta
from uuid import UUID

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from catalog.models import Checkpoint
from compute import services as compute
from compute.models import Request
from jobs.models import Attempt, Job
from jobs.services import HOLDER, job_transition
from jobs.states import State

# Attempts in a row that end without a new checkpoint, and attempts in all, after which a job is given up.
MOST_FRUITLESS = 5
MOST_ATTEMPTS = 100
# An attempt whose node had no memory left is tried once more: another's process may have taken it.
MOST_WITHOUT_MEMORY = 2
FIRST_PAUSE_S, LONGEST_PAUSE_S, JITTER = 2.0, 60.0, 0.25
WITHOUT_MEMORY = "ran out of memory"
# How far back nodes count as failed, and over how long the failures of a pool are counted.
AVOIDED_FOR = timedelta(minutes=30)
WATCHED_FOR = timedelta(days=30)
USUAL_MTBF = timedelta(days=1)
# A job goes on after a failure of this kind only where it was no fault of the task.
FAULTS = ("lost", "not_started", "failed")


def checkpoints_to_resume(job_id: UUID) -> QuerySet[Checkpoint]:
    """The checkpoints that a job can go on from, the one with the most work first."""
    return Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=job_id, final=False, damaged=False).order_by(
        "-step", "-epoch"
    )


def pause_before(fruitless: int, draw: float) -> float:
    """Seconds until the next attempt after so many fruitless ones in a row: 2, 4, 8 … 60, give or take a quarter.

    ``draw`` is a random number in [0, 1).
    """
    pause = min(FIRST_PAUSE_S * 2 ** max(0, fruitless - 1), LONGEST_PAUSE_S)
    return pause * (1 - JITTER + 2 * JITTER * draw)


def recover(attempt: Attempt, why: str) -> bool:
    """Have a job whose attempt has just ended (row, leases and bill are closed) go on by another attempt.

    False when a retry cannot help any more; the caller fails the job then. The caller's transaction is used.
    """
    job = Job.objects.select_for_update(of=("self",)).get(pk=attempt.job_id)
    if job.epoch != attempt.number:
        return True  # a later attempt is under way
    stored = Checkpoint.objects.filter(
        made_by_kind=HOLDER, made_by_id=job.pk, epoch=attempt.number, final=False
    ).exists()
    fruitless = 1 if stored else job.fruitless + 1
    if fruitless >= MOST_FRUITLESS or attempt.number >= MOST_ATTEMPTS or _without_memory(job, why):
        return False
    pause = pause_before(fruitless, random.random())  # spreads load, keeps no secret
    plan = resume_words(job.pk, attempt.last_step)
    text = f"{_sentence(why)} It goes on in {max(1, round(pause))} s: {plan}."
    ask_again(attempt, job, reason=text, not_before_s=pause, fruitless=fruitless)
    return True


def ask_again(attempt: Attempt, job: Job, *, reason: str, not_before_s: float = 0.0, fruitless: int = 0) -> None:
    """→ recovering, with a request for the next attempt's devices away from the nodes that failed."""
    moved = job_transition(
        job_id=job.pk, to=State.RECOVERING, reason=reason, attempt=attempt.number, epoch=attempt.number + 1,
        fruitless=fruitless,
    )  # fmt: skip
    if moved is None:
        return
    last = attempt.grant.request
    first = Request.objects.filter(holder_kind=HOLDER, holder_id=job.pk).order_by("since").first()
    compute.request_create(
        holder_kind=HOLDER,
        holder_id=job.pk,
        epoch=moved.epoch,
        device_kind=last.device_kind,
        devices=last.devices,
        tier=last.tier,
        since=first.since if first else None,
        not_before=timezone.now() + timedelta(seconds=not_before_s) if not_before_s else None,
        avoid=nodes_to_avoid(job.pk),
        why=f"{reason[:400]}",
    )


def nodes_to_avoid(job_id: UUID) -> list[str]:
    """Ray ids of the nodes on which attempts of this job have lately failed, or which it was told to leave."""
    lately = Attempt.objects.filter(job=job_id, ended_at__gte=timezone.now() - AVOIDED_FOR)
    failed = lately.filter(Q(outcome__in=FAULTS) | ~Q(leaving="")).exclude(node_ray_id="")
    return sorted(set(failed.values_list("node_ray_id", flat=True)))


def resume_words(job_id: UUID, reached: int) -> str:
    """Where the next attempt begins, in words; ``reached`` is the newest step that was done."""
    newest = checkpoints_to_resume(job_id).first()
    again = again_words(reached - (newest.step if newest else 0)) or "no step is lost"
    if newest is None:
        return f"from the beginning, since there is no checkpoint yet; {again}"
    return f"from the checkpoint of step {newest.step:,}; {again}"


def again_words(lost: int) -> str:
    """How many steps are done once more; empty for none."""
    return f"{lost:,} step{'' if lost == 1 else 's'} run again" if lost > 0 else ""


def where_it_ended(attempt: Attempt) -> str:
    """`` at step 40 on 10.0.0.2``, as far as it is known."""
    place = f" at step {attempt.last_step:,}" if attempt.last_step else ""
    return place + (f" on {attempt.node_address}" if attempt.node_address else "")


def reached_step(job_id: UUID) -> int:
    """The newest step that any attempt of the job has done."""
    return Attempt.objects.filter(job=job_id).aggregate(newest=Max("last_step"))["newest"] or 0


def gave_up(attempt: Attempt, why: str) -> tuple[str, str, str]:
    """Why a job is not tried again: ``(reason, failure kind, advice)``."""
    if WITHOUT_MEMORY in why:
        return (
            f"Attempt {attempt.number} ended{where_it_ended(attempt)}: {why} It was tried {MOST_WITHOUT_MEMORY} times.",
            "out_of_memory",
            "Lower the batch size, the group size or the longest completion, or choose a smaller model.",
        )
    many = attempt.number >= MOST_ATTEMPTS
    tried = f"{attempt.number} attempts were made" if many else f"{MOST_FRUITLESS} attempts in a row made no checkpoint"
    return (
        f"{_sentence(why)} The job is given up: {tried}.",
        "platform",
        "This was no fault of the task. Ask whoever keeps this installation running to look at the nodes below, then "
        "start it again; work that no checkpoint kept is not charged.",
    )


def _without_memory(job: Job, why: str) -> bool:
    if WITHOUT_MEMORY not in why:
        return False
    ended = job.attempts.filter(outcome="lost", outcome_detail__contains=WITHOUT_MEMORY)
    return ended.count() >= MOST_WITHOUT_MEMORY


def mean_time_between_failures(pool_id: UUID) -> float:
    """Seconds that an attempt on this pool runs on average until a fault of the platform ends it.

    From the attempts of the last 30 days, as if one day with one failure had come before them: as long as nothing is
    known it is one day.
    """
    rows = Attempt.objects.filter(
        grant__leases__node__pool=pool_id, started_at__isnull=False, created_at__gte=timezone.now() - WATCHED_FOR
    ).distinct()
    ran, failures, now = USUAL_MTBF.total_seconds(), 1, timezone.now()
    for started, ended, outcome in rows.values_list("started_at", "ended_at", "outcome"):
        if started is not None:
            ran += max(0.0, ((ended or now) - started).total_seconds())
        failures += outcome == "lost"
    return ran / failures


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
