"""What a fault of the platform does to a job: it goes on elsewhere, and what no checkpoint kept is free."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import factories
import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test import TestCase
from django.utils import timezone

from billing.models import LedgerLine, Price, Usage
from billing.services import price_ensure
from catalog.models import Checkpoint
from compute.models import Grant, Lease, Request
from compute.services import tick
from jobs import recovery
from jobs.attempts import (
    attempt_begin,
    attempt_drain,
    attempt_lost,
    attempt_not_started,
    attempt_reported_end,
    attempt_started,
)
from jobs.dispatch import launch_of
from jobs.models import Attempt, Job
from jobs.supervision import Superseded, attempts_claim, journal_take

pytestmark = pytest.mark.django_db
ME = "me"


def begin(job: Job) -> Attempt:
    """The next attempt of the job, started; back-off is over."""
    Request.objects.update(not_before=None)
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    assert attempt is not None and attempt_started(attempt=attempt, pid=1)
    assert attempt.pk in attempts_claim(watcher=ME)
    job.refresh_from_db()
    return Attempt.objects.get(pk=attempt.pk)


def take(attempt: Attempt, *events: dict) -> None:
    attempt.refresh_from_db()
    now = timezone.now().timestamp()
    numbered = [{"t": now, "seq": attempt.cursor + n, **event} for n, event in enumerate(events, start=1)]
    journal_take(attempt_id=attempt.pk, watcher=ME, events=numbered)
    attempt.refresh_from_db()


def metric(step: int) -> dict:
    return {"kind": "metric", "step": step, "values": {"train/reward": 0.5}, "tokens": 1, "active_s": 1.0}


def checkpoint(attempt: Attempt, step: int, **fields: object) -> dict:
    name = f"step-{step:06d}"
    uri = f"checkpoints/{attempt.pk}/{attempt.number}/{name}"
    files = [{"name": "a", "size": 7, "sha256": "0" * 64}]
    return {"kind": "checkpoint", "step": step, "final": False, "name": name, "uri": uri, "files": files,
            "format": "peft", "age_s": 0.0} | fields  # fmt: skip


@pytest.fixture
def job(alice, project) -> Job:
    for _ in range(2):
        node = factories.node()
    price_ensure(pool=node.pool)
    Price.objects.update(per_device_hour=Decimal(1))
    return factories.job(project, alice, resources={"devices": 2})


def test_a_lost_attempt_is_followed_by_one_elsewhere_that_goes_on_from_the_newest_checkpoint(job):
    first = begin(job)
    take(first, {"kind": "state", "state": "started", "result": None, "error": None})
    take(first, metric(79), checkpoint(first, 80), metric(100))
    attempt_lost(attempt=first, why="The driver's process died.")
    job.refresh_from_db()
    assert (job.state, job.epoch) == ("recovering", 2)
    assert "lost at step 100 on 10." in job.reason and "20 steps run again" in job.reason
    assert "checkpoint of step 80" in job.reason
    assert tick() == [], "it waits before it tries again"
    second = begin(job)
    assert (second.number, job.state) == (2, "starting")
    assert second.node_address != first.node_address
    (folder,) = launch_of(second, [0]).resume_from
    assert folder.key.endswith("/1/step-000080")
    take(second, {"kind": "resume", "step": 80, "name": "step-000080", "uri": folder.key, "damaged": []})
    assert (second.first_step, second.resumed_from.step) == (80, 80)
    assert "Resumes at step 80 from checkpoint step-000080; 20 steps run again." in job.timeline.last().reason


def test_an_attempt_that_is_over_writes_nothing_any_more(job):
    first = begin(job)
    take(first, metric(1))
    attempt_lost(attempt=first, why="gone")
    begin(job)
    with pytest.raises(Superseded):
        take(first, metric(2), checkpoint(first, 2))
    attempt_lost(attempt=first, why="gone once more")
    attempt_reported_end(attempt=first, report={"state": "failed", "error": {"message": "late"}})
    job.refresh_from_db()
    assert (job.state, job.epoch, job.attempts.count()) == ("starting", 2, 2)
    assert not Checkpoint.objects.exists()


def test_work_that_a_checkpoint_kept_is_charged_and_the_rest_is_free(job):
    first = begin(job)
    hour_ago = timezone.now() - timedelta(hours=1)
    Lease.objects.update(during=DateTimeTZRange(hour_ago, None))
    kept = timezone.now() - timedelta(minutes=30)
    take(first, checkpoint(first, 5) | {"t": (kept + timedelta(seconds=60)).timestamp(), "age_s": 60.0})
    attempt_lost(attempt=first, why="gone")
    lease = Lease.objects.first()
    seconds = {row.category: row.seconds for row in Usage.objects.filter(lease=lease)}
    assert float(seconds["work"]) == pytest.approx(1800, abs=1)
    assert (
        sum(seconds.values()) == Decimal((lease.during.upper - lease.during.lower) // timedelta(microseconds=1)) / 10**6
    )
    assert float(sum(line.amount for line in LedgerLine.objects.all())) == pytest.approx(2 * 0.5, abs=0.001)


def test_without_a_checkpoint_a_lost_attempt_is_free(job):
    attempt_lost(attempt=begin(job), why="gone")
    assert set(Usage.objects.values_list("category", flat=True)) == {"lost"}
    assert not LedgerLine.objects.exists()


def test_a_checkpoint_of_a_clock_that_runs_ahead_charges_no_more_than_the_lease(job):
    first = begin(job)
    take(first, checkpoint(first, 5) | {"t": (timezone.now() + timedelta(days=9)).timestamp()})
    attempt_lost(attempt=first, why="gone")
    leases = sum((lease.during.upper - lease.during.lower).total_seconds() for lease in Lease.objects.all())
    assert float(sum(row.seconds for row in Usage.objects.all())) == pytest.approx(leases)
    assert Checkpoint.objects.get().taken_at <= timezone.now()


def test_pauses_between_attempts_double_up_to_a_minute_with_a_quarter_of_jitter():
    assert [recovery.pause_before(n, 0.5) for n in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert (recovery.pause_before(1, 0.0), recovery.pause_before(1, 1.0)) == (1.5, 2.5)


def test_attempts_in_a_row_without_a_checkpoint_fail_the_job_and_say_what_was_tried(job):
    for number in range(1, recovery.MOST_FRUITLESS + 1):
        attempt = begin(job)
        assert attempt.number == number
        attempt_lost(attempt=attempt, why="The driver's node died.")
    job.refresh_from_db()
    assert (job.state, job.failure_kind) == ("failed", "platform")
    assert "node died" in job.reason and "5 attempts in a row made no checkpoint" in job.reason and job.advice
    assert not Grant.objects.exclude(state="released").exists()


def test_an_attempt_that_made_a_checkpoint_starts_the_count_anew(job):
    for number in range(1, 8):
        attempt = begin(job)
        take(attempt, checkpoint(attempt, number))
        attempt_lost(attempt=attempt, why="gone")
    job.refresh_from_db()
    assert (job.state, job.fruitless) == ("recovering", 1)


def test_a_node_without_memory_is_tried_once_more_and_then_named(job):
    why = "The node ran out of memory and the driver was killed."
    attempt_lost(attempt=begin(job), why=why)
    attempt_lost(attempt=begin(job), why=why)
    job.refresh_from_db()
    assert (job.state, job.failure_kind) == ("failed", "out_of_memory") and "batch size" in job.advice


def test_the_failed_node_serves_when_there_is_no_other(alice, project):
    factories.node()
    job = factories.job(project, alice)
    first = begin(job)
    attempt_lost(attempt=first, why="gone")
    assert begin(job).node_address == first.node_address


def test_a_busy_node_is_waited_for_before_the_failed_one_is_taken_again(job, alice, project):
    first = begin(job)
    other = factories.job(project, alice, resources={"devices": 2})
    begin(other)
    attempt_lost(attempt=first, why="gone")
    Request.objects.update(not_before=None)
    assert tick() == []
    Request.objects.update(created_at=timezone.now() - timedelta(seconds=61))
    (grant,) = tick()
    assert Grant.objects.get(pk=grant).leases.first().node.address == first.node_address


def test_a_recovering_job_keeps_its_place_in_the_queue(alice, project):
    factories.node()
    job = factories.job(project, alice, resources={"devices": 2})
    first = begin(job)
    later = factories.job(project, alice, resources={"devices": 2})
    attempt_lost(attempt=first, why="gone")
    Request.objects.update(not_before=None)
    (grant,) = tick()
    assert Grant.objects.get(pk=grant).request.holder_id == job.pk != later.pk


def test_a_driver_that_cannot_be_started_is_tried_elsewhere(job):
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    attempt_not_started(attempt=attempt, why="No room.")
    job.refresh_from_db()
    assert job.state == "recovering" and "could not be started: No room." in job.reason
    assert begin(job).node_address != attempt.node_address


@pytest.mark.parametrize("kind", ["bad_data", "reward_error", "not_finite", "out_of_memory"])
def test_what_the_task_brings_about_is_not_tried_again_and_is_charged(job, kind):
    attempt = begin(job)
    error = {"kind": kind, "message": "It broke.", "advice": "Mend it.", "field": "reward", "retry": False}
    attempt_reported_end(attempt=attempt, report={"state": "failed", "error": error})
    job.refresh_from_db()
    assert (job.state, job.failure_kind, job.failure_field) == ("failed", kind, "reward")
    assert set(Usage.objects.values_list("category", flat=True)) == {"work"}


def test_a_fault_of_the_storage_is_tried_again_and_free(job):
    attempt = begin(job)
    error = {"kind": "storage", "message": "The storage does not answer.", "advice": "", "field": None, "retry": True}
    attempt_reported_end(attempt=attempt, report={"state": "failed", "error": error})
    job.refresh_from_db()
    assert job.state == "recovering" and "does not answer" in job.reason
    assert set(Usage.objects.values_list("category", flat=True)) == {"lost"}


def test_a_damaged_checkpoint_is_not_offered_again(job):
    first = begin(job)
    take(first, checkpoint(first, 4), checkpoint(first, 8))
    attempt_lost(attempt=first, why="gone")
    second = begin(job)
    newest, before = launch_of(second, [0]).resume_from
    take(second, {"kind": "resume", "step": 4, "name": "step-000004", "uri": before.key, "damaged": [newest.key]})
    assert Checkpoint.objects.get(step=8).damaged and "step-000008 cannot be used" in job.timeline.last().reason
    attempt_lost(attempt=second, why="gone")
    assert [folder.key for folder in launch_of(begin(job), [0]).resume_from] == [before.key]


def test_the_checkpoint_a_run_came_from_may_go_while_it_runs(job):
    first = begin(job)
    take(first, checkpoint(first, 2))
    attempt_lost(attempt=first, why="gone")
    second = begin(job)
    (folder,) = launch_of(second, [0]).resume_from
    resume = {"kind": "resume", "step": 2, "name": "step-000002", "uri": folder.key, "damaged": []}
    take(second, resume, *(checkpoint(second, step) for step in range(3, 8)))
    assert (second.first_step, second.resumed_from) == (2, None)
    assert sorted(Checkpoint.objects.values_list("step", flat=True)) == [5, 6, 7]


def test_what_a_dead_attempt_had_begun_to_store_goes(job, settings, tmp_path):
    from trainers.storage import Storage

    settings.STORAGE_URL = f"file://{tmp_path}"
    storage = Storage(settings.STORAGE_URL)
    attempt = begin(job)
    whole = checkpoint(attempt, 2)
    take(attempt, whole)
    begun = whole["uri"].replace("000002", "000004")
    for uri in (whole["uri"], begun):
        storage.put_bytes(f"{uri}/a", b"x")
    with TestCase.captureOnCommitCallbacks(execute=True):
        attempt_lost(attempt=attempt, why="gone")
    assert list(storage.list("checkpoints")) == [f"{whole['uri']}/a"]


def test_an_attempt_that_leaves_its_node_goes_on_elsewhere_without_a_loss(job):
    first = begin(job)
    assert attempt_drain(attempt=first, reason="Its node is taken back in two minutes.")
    assert not attempt_drain(attempt=first, reason="again")
    take(first, metric(7), checkpoint(first, 7))
    attempt_reported_end(attempt=first, report={"state": "paused"})
    job.refresh_from_db()
    assert job.state == "recovering" and "taken back" in job.reason and "no step is lost" in job.reason
    assert set(Usage.objects.values_list("category", flat=True)) == {"work"}
    (grant,) = tick()
    assert Grant.objects.get(pk=grant).leases.first().node.address != first.node_address, "at once, and elsewhere"


def test_the_failures_of_a_pool_are_counted(job):
    attempt = begin(job)
    pool = attempt.grant.leases.first().node.pool_id
    assert recovery.mean_time_between_failures(pool) == pytest.approx(86_400, rel=0.01)
    attempt_lost(attempt=attempt, why="gone")
    assert recovery.mean_time_between_failures(pool) == pytest.approx(86_400 / 2, rel=0.01)
