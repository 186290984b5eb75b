"""Pause and resume: by a person, by a budget, in every state; and the pages and operations that ask for it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import factories
import pytest
from django.utils import timezone

from catalog.models import Checkpoint
from compute.models import Grant, Request
from compute.services import tick
from jobs import sweeping
from jobs.attempts import attempt_begin, attempt_lost, attempt_not_started, attempt_reported_end, attempt_started
from jobs.models import Attempt, Job
from jobs.resuming import job_resume
from jobs.retention import checkpoint_keep, checkpoints_prune
from jobs.services import job_cancel, job_pause
from jobs.states import TABLE, WITHOUT_PROCESS, State, TransitionError
from jobs.suggestions import changes_of_link, suggested_changes
from workspaces.errors import Refused

pytestmark = pytest.mark.django_db
CAN_PAUSE = sorted(state for state in State if "pause" in TABLE[state].actions)


def begin(job: Job) -> Attempt:
    Request.objects.update(not_before=None)
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    assert attempt is not None and attempt_started(attempt=attempt, pid=1)
    job.refresh_from_db()
    return attempt


def stored(job: Job, step: int, epoch: int = 1, **fields: object) -> Checkpoint:
    return Checkpoint.objects.create(
        project=job.project, made_by_kind="job", made_by_id=job.pk, epoch=epoch, step=step, name=f"step-{step:06d}",
        **({"uri": f"c/{epoch}/{step}", "format": "peft", "size": 10**9, "taken_at": timezone.now()} | fields),
    )  # fmt: skip


@pytest.fixture
def job(alice, project) -> Job:
    factories.node()
    return factories.job(project, alice)


@pytest.mark.parametrize("state", CAN_PAUSE)
def test_pause_from_every_state_that_says_so_and_twice_is_once(alice, job, state):
    Job.objects.filter(pk=job.pk).update(state=state)
    for _ in range(2):
        job_pause(job=job, actor=alice, reason="lunch")
    job.refresh_from_db()
    assert job.state == ("paused" if state in WITHOUT_PROCESS else "pausing")
    assert job.timeline.filter(to_state=job.state).count() == 1


@pytest.mark.parametrize("state", sorted(set(State) - set(CAN_PAUSE) - {State.PAUSED, State.PAUSING}))
def test_a_job_that_ends_or_has_ended_cannot_be_paused(alice, job, state):
    Job.objects.filter(pk=job.pk).update(state=state)
    with pytest.raises(TransitionError, match="cannot become"):
        job_pause(job=job, actor=alice)


def test_a_paused_job_leaves_the_queue_and_a_late_grant_is_given_back(alice, job):
    (grant,) = tick()
    job_pause(job=job, actor=alice)
    assert attempt_begin(grant_id=grant) is None
    job_resume(job=job, actor=alice)
    assert Grant.objects.get(pk=grant).state == "released"
    assert begin(job).number == 2


def test_an_old_grant_does_not_start_a_job_that_was_resumed_meanwhile(alice, job):
    (grant,) = tick()
    job_pause(job=job, actor=alice)
    job_resume(job=job, actor=alice)
    assert attempt_begin(grant_id=grant) is None
    job.refresh_from_db()
    assert job.state == "queued"


def test_the_driver_ends_paused_and_resume_goes_on_from_its_checkpoint(alice, job):
    attempt = begin(job)
    job_pause(job=job, actor=alice, reason="lunch.")
    stored(job, 7)
    Attempt.objects.update(last_step=7)
    attempt_reported_end(attempt=attempt, report={"state": "paused"})
    job.refresh_from_db()
    assert job.state == "paused"
    assert job.reason == "lunch. When resumed it goes on from the checkpoint of step 7; no step is lost."
    assert not Grant.objects.exclude(state="released").exists()
    job_resume(job=job, actor=alice)
    job_resume(job=job, actor=alice)
    job.refresh_from_db()
    assert (job.state, job.epoch) == ("queued", 2) and "checkpoint of step 7" in job.reason
    assert begin(job).number == 2


def test_a_driver_lost_while_pausing_leaves_the_job_paused(alice, job):
    attempt = begin(job)
    job_pause(job=job, actor=alice)
    attempt_lost(attempt=attempt, why="gone")
    job.refresh_from_db()
    assert job.state == "paused" and "gone" in job.reason
    assert not Request.objects.filter(state="waiting").exists()


def test_paused_while_placing_nothing_is_started(alice, job):
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    job_pause(job=job, actor=alice)
    assert attempt_started(attempt=attempt, pid=1) is False
    attempt_not_started(attempt=attempt, why="paused first")
    job.refresh_from_db()
    assert job.state == "paused"


def test_a_run_that_was_over_before_the_pause_reached_it_finishes(alice, job):
    attempt = begin(job)
    job_pause(job=job, actor=alice)
    attempt_reported_end(attempt=attempt, report={"state": "succeeded", "result": {}})
    job.refresh_from_db()
    assert job.state == "finishing"


def test_cancel_wins_over_pause(alice, job):
    attempt = begin(job)
    job_pause(job=job, actor=alice)
    job_cancel(job=job, actor=alice, reason="no more")
    attempt_reported_end(attempt=attempt, report={"state": "paused"})
    job.refresh_from_db()
    assert (job.state, job.reason) == ("cancelled", "no more")


def test_a_pausing_job_without_any_process_is_paused_by_the_sweep(job):
    Job.objects.filter(pk=job.pk).update(state=State.PAUSING, reason="lunch")
    sweeping.sweep()
    job.refresh_from_db()
    assert job.state == "paused"


def test_a_budget_that_is_used_up_must_be_raised_to_go_on(alice, project):
    factories.node()
    job = factories.job(project, alice, budget={"minutes": 1})
    attempt = begin(job)
    Attempt.objects.update(started_at=timezone.now() - timedelta(minutes=2))
    job_pause(job=job, actor=None, reason="Its budget of 1 minutes is used up.")
    attempt_reported_end(attempt=attempt, report={"state": "paused"})
    with pytest.raises(Refused, match="larger one") as caught:
        job_resume(job=job, actor=alice)
    assert caught.value.field == "minutes"
    with pytest.raises(Refused, match="larger one"):
        job_resume(job=job, actor=alice, minutes=1.5)
    job_resume(job=job, actor=alice, minutes=30)
    job.refresh_from_db()
    assert job.state == "queued" and job.spec["budget"]["minutes"] == 30


def test_only_a_paused_job_can_be_resumed(alice, job):
    begin(job)
    with pytest.raises(TransitionError, match="starting cannot become queued"):
        job_resume(job=job, actor=alice)


def test_kept_checkpoints_and_the_newest_stay_whatever_the_limits(alice, job):
    job.spec["checkpointing"] |= {"keep": 2, "keep_gb": 1.5}
    rows = [stored(job, step) for step in range(1, 6)]
    checkpoint_keep(checkpoint=rows[0], job=job, keep=True, actor=alice)
    stored(job, 9, damaged=True)
    checkpoints_prune(job=job)
    assert sorted(Checkpoint.objects.values_list("step", flat=True)) == [1, 5]
    checkpoint_keep(checkpoint=rows[0], job=job, keep=False, actor=alice)
    checkpoints_prune(job=job)
    assert [row.step for row in Checkpoint.objects.all()] == [5]


def test_the_change_that_a_failure_suggests_can_be_taken_over(job):
    Job.objects.filter(pk=job.pk).update(state="failed", failure_kind="out_of_memory")
    job.refresh_from_db()
    (change,) = suggested_changes(job)
    assert (change.path, change.before, change.after) == ("hyperparameters.batch_size", "8", "4")
    assert changes_of_link({"suggested": "1"}, job) == {"hyperparameters.batch_size": "4", "size": "custom"}
    job.failure_kind = "not_finite"
    (change,) = suggested_changes(job)
    assert (change.path, Decimal(change.after)) == ("hyperparameters.learning_rate", Decimal("0.000067"))
    job.failure_kind = "bad_data"
    assert suggested_changes(job) == []
    assert changes_of_link({"start_from": "checkpoint:x'y"}, job) == {}


def test_the_pages_pause_and_resume_and_keep(client, bob, project, job):
    client.force_login(bob)
    base = f"/projects/{project.pk}/jobs/{job.pk}"
    assert "Pause this job?" in client.get(f"{base}/pause/").content.decode()
    assert client.post(f"{base}/pause/", {"reason": "lunch"}).status_code == 302
    job.refresh_from_db()
    assert job.state == "paused"
    row = stored(job, 3)
    page = client.get(f"{base}/?tab=checkpoints").content.decode()
    assert "Resume this job?" in page and "New job from here" in page
    answer = client.post(f"{base}/checkpoints/{row.pk}/keep/", {"kept": "1"}, headers={"HX-Request": "true"})
    assert "Let go" in answer.content.decode()
    assert client.post(f"{base}/resume/").status_code == 302
    assert client.post(f"{base}/resume/").status_code == 302, "again it changes nothing"
    job.refresh_from_db()
    assert job.state == "queued"
    Job.objects.filter(pk=job.pk).update(state="failed")
    assert client.post(f"{base}/pause/").status_code == client.post(f"{base}/resume/").status_code == 409


def test_a_budget_too_small_comes_back_beside_its_field(client, bob, project, alice):
    factories.node()
    job = factories.job(project, alice, budget={"minutes": 1})
    attempt = begin(job)
    Attempt.objects.update(started_at=timezone.now() - timedelta(minutes=2))
    job_pause(job=job, actor=None, reason="used up")
    attempt_reported_end(attempt=attempt, report={"state": "paused"})
    client.force_login(bob)
    answer = client.post(f"/projects/{project.pk}/jobs/{job.pk}/resume/", {"minutes": "1.2"})
    assert answer.status_code == 422 and "larger one" in answer.content.decode()
    assert client.post(f"/projects/{project.pk}/jobs/{job.pk}/resume/", {"minutes": "60"}).status_code == 302


def test_a_failed_job_tells_what_was_tried(client, bob, project, job):
    attempt = begin(job)
    error = {"kind": "out_of_memory", "message": "The run needed more memory.", "advice": "Lower it.", "field": "x"}
    attempt_reported_end(attempt=attempt, report={"state": "failed", "error": error})
    client.force_login(bob)
    page = client.get(f"/projects/{project.pk}/jobs/{job.pk}/").content.decode()
    assert "What was tried" in page and attempt.node_address in page
    assert "Start again with this change" in page and "hyperparameters.batch_size" in page
    form = client.get(f"/projects/{project.pk}/jobs/new/?copy={job.pk}&suggested=1").content.decode()
    assert 'name="hyperparameters.batch_size" value="4"' in form
