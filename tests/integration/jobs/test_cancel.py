"""Cancelling works in every state, says who and why, and is not done twice."""

from __future__ import annotations

import factories
import pytest

from compute.models import Grant, Lease, Request
from compute.services import tick
from jobs import sweeping
from jobs.attempts import attempt_begin, attempt_not_started, attempt_reported_end, attempt_started
from jobs.models import Attempt, Job
from jobs.services import job_cancel, job_transition
from jobs.states import ACTIVE, TERMINAL, WITHOUT_PROCESS, State

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", sorted(ACTIVE - {State.CANCELLING}))
def test_cancel_from_every_active_state(alice, project, state):
    job = factories.job(project, alice)
    Job.objects.filter(pk=job.pk).update(state=state)
    job_cancel(job=job, actor=alice, reason="wrong data")
    job.refresh_from_db()
    assert job.state == ("cancelled" if state in WITHOUT_PROCESS else "cancelling")
    assert job.reason == "wrong data"
    last = job.timeline.last()
    assert (last.from_state, last.actor, last.reason) == (state, alice, "wrong data")


@pytest.mark.parametrize("state", sorted(TERMINAL | {State.CANCELLING}))
def test_cancelling_what_has_ended_or_is_ending_changes_nothing(alice, project, state):
    job = factories.job(project, alice)
    Job.objects.filter(pk=job.pk).update(state=state, reason="as it was")
    before = job.timeline.count()
    job_cancel(job=job, actor=alice)
    job.refresh_from_db()
    assert (job.state, job.reason, job.timeline.count()) == (state, "as it was", before)


def test_a_queued_job_leaves_the_queue(alice, project):
    job = factories.job(project, alice)
    job_cancel(job=job, actor=alice)
    assert Request.objects.get().state == "withdrawn"
    factories.node()
    assert tick() == []


def test_a_grant_that_comes_too_late_is_given_back(alice, project):
    factories.node()
    job = factories.job(project, alice)
    (grant,) = tick()
    job_cancel(job=job, actor=alice)
    assert attempt_begin(grant_id=grant) is None
    assert Grant.objects.get().state == "released"
    assert not Lease.objects.filter(during__upper_inf=True).exists()


def begun(project, user) -> Attempt:
    factories.node()
    factories.job(project, user)
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    assert attempt is not None
    return attempt


def test_cancelled_while_placing_it_never_becomes_running(alice, project):
    attempt = begun(project, alice)
    job_cancel(job=attempt.job, actor=alice)
    assert attempt_started(attempt=attempt, pid=1) is False
    attempt_not_started(attempt=attempt, why="cancelled first")
    attempt.job.refresh_from_db()
    assert attempt.job.state == "cancelled"


def test_whatever_the_driver_reports_a_cancelled_job_ends_cancelled(alice, project):
    attempt = begun(project, alice)
    attempt_started(attempt=attempt, pid=1)
    job_cancel(job=attempt.job, actor=alice, reason="enough")
    attempt.refresh_from_db()
    attempt_reported_end(attempt=attempt, report={"state": "succeeded", "result": {}})
    attempt.job.refresh_from_db()
    assert (attempt.job.state, attempt.job.reason) == ("cancelled", "enough")
    assert Grant.objects.get().state == "released"


def test_a_cancelling_job_without_any_process_is_ended_by_the_sweep(alice, project):
    job = factories.job(project, alice)
    Job.objects.filter(pk=job.pk).update(state=State.CANCELLING, reason="stop")
    sweeping.sweep()
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_only_one_of_two_processes_makes_a_change(alice, project):
    job = factories.job(project, alice)
    assert job_transition(job_id=job.pk, to=State.PLACING, only_from={State.QUEUED}, reason="first") is not None
    assert job_transition(job_id=job.pk, to=State.PLACING, only_from={State.QUEUED}, reason="second") is None
    assert job.timeline.filter(to_state="placing").count() == 1
