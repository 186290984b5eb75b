"""Bringing a journal into Postgres: rows and cursor move in one transaction, so nothing is lost or counted twice.

Which supervisor does it is decided by the attempt's ``watched_by`` and ``watched_until``: a claim that is renewed with
every look and falls to another supervisor once it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from catalog.models import Checkpoint
from compute.models import Grant
from jobs import hints
from jobs.models import Attempt, Job
from jobs.recovery import again_words, reached_step
from jobs.retention import checkpoints_prune
from jobs.services import HOLDER, job_note, job_transition
from jobs.states import State
from records import services as records
from workspaces.vault import mask_of_project

Event = Mapping[str, Any]
logger = logging.getLogger(__name__)
CLAIM = timedelta(seconds=12)
TERMINAL_REPORTS = frozenset({"succeeded", "failed", "cancelled", "paused"})


class Superseded(Exception):
    """Another supervisor watches this attempt now; this one lets go of it."""


class JournalGap(Exception):
    """The events do not go on where the database stopped; they are asked for again."""


def attempts_claim(*, watcher: str, limit: int = 200) -> list[UUID]:
    """Claim the open attempts nobody watches; returns all that are this watcher's now."""
    now = timezone.now()
    with transaction.atomic():
        free = Attempt.objects.select_for_update(skip_locked=True).filter(
            Q(watched_until=None) | Q(watched_until__lt=now), ended_at=None
        )[:limit]
        Attempt.objects.filter(pk__in=[row.pk for row in free]).update(watched_by=watcher, watched_until=now + CLAIM)
    return list(Attempt.objects.filter(watched_by=watcher, ended_at=None).values_list("pk", flat=True))


def attempt_watched(*, attempt_id: UUID, watcher: str) -> Attempt:
    """Renew the claim and read the attempt anew.

    Raises :class:`Superseded` when the claim is no longer this watcher's.
    """
    _renew(attempt_id, watcher, watched_until=timezone.now() + CLAIM)
    return Attempt.objects.select_related("job__project", "grant__request").get(pk=attempt_id)


def attempt_answered(*, attempt: Attempt, watcher: str) -> None:
    """Renew the claim and the lease's sign of life, since the driver answered. Raises :class:`Superseded` as above."""
    now = timezone.now()
    _renew(attempt.pk, watcher, watched_until=now + CLAIM, last_seen_at=now)
    Grant.objects.filter(pk=attempt.grant_id).update(renewed_at=now)


def _renew(attempt_id: UUID, watcher: str, **times: datetime) -> None:
    if not Attempt.objects.filter(pk=attempt_id, watched_by=watcher).update(**times):
        raise Superseded


def attempts_release(*, watcher: str) -> None:
    """Let go of everything, so that the next supervisor need not wait for the claims to run out."""
    Attempt.objects.filter(watched_by=watcher, ended_at=None).update(watched_until=None, watched_by="")


@transaction.atomic
def journal_take(*, attempt_id: UUID, watcher: str, events: Sequence[Event]) -> int:
    """Store a stretch of an attempt's journal and return the new cursor.

    Events at or before the cursor are passed over. Raises :class:`Superseded`, or :class:`JournalGap` when numbers
    are missing.
    """
    attempt = Attempt.objects.select_for_update(of=("self",)).select_related("job").get(pk=attempt_id)
    if attempt.watched_by != watcher or attempt.ended_at is not None:
        raise Superseded
    fresh = [event for event in events if event["seq"] > attempt.cursor]
    if not fresh:
        return attempt.cursor
    for expected, event in enumerate(fresh, start=attempt.cursor + 1):
        if event["seq"] != expected:
            raise JournalGap(f"expected event {expected} of attempt {attempt_id}, got {event['seq']}")
    # Asked for by the first text: a stretch of numbers alone has nothing to hide.
    mask = SimpleLazyObject(lambda: mask_of_project(attempt.job.project_id))
    records.ingest(
        subject_kind=HOLDER,
        subject_id=attempt.job_id,
        attempt=attempt.number,
        events=fresh,
        hide=lambda text: mask.text(text),
    )
    for event in fresh:
        if event["kind"] == "checkpoint":
            _store_checkpoint(attempt, event)
        elif event["kind"] == "state":
            _note_state(attempt, mask.value(event))
        elif event["kind"] == "resume":
            _note_resume(attempt, event)
    _note_progress(attempt, fresh)
    attempt.last_step = max([attempt.last_step, *(event["step"] for event in fresh if event["kind"] == "metric")])
    attempt.cursor = fresh[-1]["seq"]
    attempt.save(update_fields=["cursor", "report", "last_step"])
    hints.after_commit(attempt.job_id, f"{attempt.number}:{attempt.cursor}")
    return attempt.cursor


def _note_progress(attempt: Attempt, events: Sequence[Event]) -> None:
    """Keep the job's columns at the newest progress; a fenced-off attempt of an older epoch changes nothing."""
    last = next((event for event in reversed(events) if event["kind"] == "progress"), None)
    if last is None:
        return
    Job.objects.filter(pk=attempt.job_id, epoch=attempt.number).update(
        step=last.get("step") or 0,
        total_steps=last["total_steps"] if last.get("total_steps") else F("total_steps"),
        phase=str(last["phase"])[:20],
        fraction=min(max(float(last["fraction"]), 0.0), 1.0),
        eta_s=last.get("eta_s"),
    )


def _store_checkpoint(attempt: Attempt, event: Event) -> None:
    Checkpoint.objects.get_or_create(
        made_by_kind=HOLDER,
        made_by_id=attempt.job_id,
        epoch=attempt.number,
        name=event["name"][:200],
        defaults={
            "project_id": attempt.job.project_id,
            "step": event["step"],
            "uri": event["uri"],
            "format": event["format"],
            "files": list(event["files"]),
            "size": sum(file["size"] for file in event["files"]),
            "final": event["final"],
            "taken_at": _taken_at(event),
        },
    )
    checkpoints_prune(job=attempt.job)


def _taken_at(event: Event) -> datetime:
    """When the state was taken, by the driver's clock; one that runs ahead does not make it later than now."""
    moment = datetime.fromtimestamp(event["t"], UTC) - timedelta(seconds=max(0.0, float(event.get("age_s") or 0.0)))
    return min(moment, timezone.now())


def _note_resume(attempt: Attempt, event: Event) -> None:
    """What the run goes on from; checkpoints that it found damaged are not offered again."""
    rows = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=attempt.job_id)
    damaged = [str(uri) for uri in event["damaged"]]
    rows.filter(uri__in=damaged).update(damaged=True)
    attempt.first_step = event["step"]
    attempt.last_step = max(attempt.last_step, event["step"])
    attempt.resumed_from = rows.filter(uri=event["uri"]).first() if event["uri"] else None
    # At once: later events of the same stretch may delete that checkpoint for a newer one.
    attempt.save(update_fields=["first_step", "resumed_from"])
    again = again_words(reached_step(attempt.job_id) - event["step"]) or "no step runs again"
    what = f"Resumes at step {event['step']:,} from checkpoint {event['name']}" if event["name"] else "Begins anew"
    spoiled = (
        f" {' and '.join(uri.rpartition('/')[2] for uri in damaged)} cannot be used, being damaged." if damaged else ""
    )
    job_note(job_id=attempt.job_id, attempt=attempt.number, reason=f"{what}; {again}.{spoiled}")


def _note_state(attempt: Attempt, event: Event) -> None:
    if event["state"] == "started" and attempt.job.epoch == attempt.number:
        job_transition(
            job_id=attempt.job_id,
            to=State.RUNNING,
            only_from={State.STARTING},
            reason="Trains.",
            attempt=attempt.number,
        )
    elif event["state"] in TERMINAL_REPORTS:
        attempt.report = {"state": event["state"], "result": event.get("result"), "error": event.get("error")}
