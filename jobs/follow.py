"""One look at one attempt: pull what its driver has written, store it, and act on how it stands."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from compute.models import Node
from jobs import budget
from jobs.attempts import attempt_lost, attempt_not_started, attempt_reported_end
from jobs.models import Attempt
from jobs.states import State
from jobs.supervision import TERMINAL_REPORTS, attempt_answered, attempt_watched, journal_take
from trainers.runtime import launch
from trainers.runtime.events import Event
from trainers.runtime.journal import JournalError, read_local
from trainers.runtime.segments import read_segments
from trainers.storage import Storage, StorageError

logger = logging.getLogger(__name__)

POLL_WAIT_S = 2.0
POLL_LIMIT = 2000
UNSTARTED_EVERY_S = 0.5
# A grant whose dispatch has not brought up a driver after this long is dispatched again, or given up.
DISPATCH_PATIENCE_S = 60.0


def look(*, attempt_id: UUID, watcher: str) -> float | None:
    """Follow an attempt for one long poll. Returns the seconds until the next look, None when it has ended.

    Raises ``jobs.supervision.Superseded`` when another supervisor has taken over.
    """
    attempt = attempt_watched(attempt_id=attempt_id, watcher=watcher)
    if attempt.ended_at is not None:
        return None
    if attempt.report is not None:
        _wrap_up(attempt)
        return None
    launch.connect(settings.RAY_ADDRESS, settings.RAY_NAMESPACE)
    if attempt.started_at is None:
        return _look_at_unstarted(attempt)
    try:
        answer = _ask(attempt)
    except launch.DriverGone as gone:
        _read_what_is_left(attempt, watcher)
        attempt = attempt_watched(attempt_id=attempt_id, watcher=watcher)
        if attempt.report is not None:
            _wrap_up(attempt)
        else:
            _end_lost(attempt, str(gone))
        return None
    attempt_answered(attempt=attempt, watcher=watcher)
    if answer["events"]:
        journal_take(attempt_id=attempt_id, watcher=watcher, events=answer["events"])
    elif answer["journal_error"] and answer["state"] in TERMINAL_REPORTS:
        # It ended, and its last word could not be written down: nothing more will come.
        _end_lost(attempt, f"its journal could not be written ({answer['journal_error']})")
        return None
    return 0.0


def _ask(attempt: Attempt) -> launch.PollAnswer:
    """Pass on what the driver is to do, and pull what it has written. Raises ``DriverGone`` also for a dead node."""
    try:
        driver = launch.find_driver(attempt.driver)
        if attempt.job.state == State.CANCELLING:
            launch.cancel_driver(driver)
        elif attempt.job.state == State.PAUSING or attempt.leaving:
            launch.pause_driver(driver)
        else:
            budget.enforce(attempt.job)
        return launch.poll(driver, after=attempt.cursor, wait_s=POLL_WAIT_S, limit=POLL_LIMIT)
    except launch.RuntimeUnavailable:
        # The connection to a node's processes breaks before Ray's own table says that the node is dead, or after.
        if attempt.node_ray_id and not launch.node_alive(attempt.node_ray_id):
            raise launch.DriverGone("The driver's node died.") from None
        raise


def _look_at_unstarted(attempt: Attempt) -> float | None:
    """Between the claim of a grant and its driver. The dispatching task may still be at work, or may have died."""
    from jobs.dispatch import dispatch

    waited = (timezone.now() - attempt.created_at).total_seconds()
    if attempt.job.state in (State.CANCELLING, State.PAUSING):
        launch.kill_driver(attempt.driver)
        launch.remove_group(attempt.driver)
        attempt_not_started(attempt=attempt, why=f"The job was {attempt.job.state} before it started.")
        return None
    if not Node.objects.filter(ray_id=attempt.node_ray_id, alive=True).exists():
        launch.remove_group(attempt.driver)
        attempt_not_started(attempt=attempt, why="Its node is gone.")
        return None
    if waited > DISPATCH_PATIENCE_S:
        dispatch(attempt)
    return UNSTARTED_EVERY_S


def _read_what_is_left(attempt: Attempt, watcher: str) -> None:
    """Read a dead driver's journal to its end: from storage, then from its disk when that is this machine's."""
    shipped = launch.journal_prefix(str(attempt.pk), attempt.number)
    folder = launch.attempt_folder(settings.WORK_DIR, str(attempt.pk))
    after = attempt.cursor
    for read in (
        lambda after: read_segments(Storage(settings.STORAGE_URL), shipped, after),
        lambda after: read_local(folder, after),
    ):
        try:
            for events in batched(read(after), POLL_LIMIT):
                after = journal_take(attempt_id=attempt.pk, watcher=watcher, events=events)
        except (JournalError, StorageError) as error:
            logger.warning("could not read all that is left of attempt %s: %s", attempt.pk, error)


def batched(events: Iterator[Event], size: int) -> Iterator[list[Event]]:
    """Lists of up to ``size``; what came before an error is handed out before the error is."""
    batch: list[Event] = []
    try:
        for event in events:
            batch.append(event)
            if len(batch) == size:
                yield batch
                batch = []
    except (JournalError, StorageError):
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _end_lost(attempt: Attempt, why: str) -> None:
    launch.kill_driver(attempt.driver)
    launch.remove_group(attempt.driver)
    attempt_lost(attempt=attempt, why=why)


def _wrap_up(attempt: Attempt) -> None:
    """The driver has reported its end: make sure its process is gone, then release its devices."""
    launch.connect(settings.RAY_ADDRESS, settings.RAY_NAMESPACE)
    launch.kill_driver(attempt.driver)
    launch.remove_group(attempt.driver)
    assert attempt.report is not None
    attempt_reported_end(attempt=attempt, report=attempt.report)
    # Its journal is in the database and in storage; the copy on the driver's disk has done its work.
    shutil.rmtree(launch.attempt_folder(settings.WORK_DIR, str(attempt.pk)), ignore_errors=True)
