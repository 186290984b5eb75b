"""A budget that is used up pauses the job, and the job says so."""

from __future__ import annotations

from datetime import timedelta

import factories
import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.utils import timezone

from billing.models import Price
from billing.services import price_ensure
from compute.models import Lease
from compute.services import tick
from jobs import budget
from jobs.attempts import attempt_begin, attempt_started
from jobs.models import Attempt, Job

pytestmark = pytest.mark.django_db


def running(project, user, **limits) -> Job:
    node = factories.node(devices=2)
    price_ensure(pool=node.pool)
    Price.objects.update(per_device_hour="1")
    job = factories.job(project, user, budget=limits)
    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    assert attempt is not None and attempt_started(attempt=attempt, pid=1)
    hour_ago = timezone.now() - timedelta(hours=1)
    Lease.objects.update(during=DateTimeTZRange(hour_ago, None))
    Attempt.objects.update(started_at=hour_ago)
    Job.objects.filter(pk=job.pk).update(state="running")
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"amount": "1.99"}, "1.99 USD is used up"), ({"minutes": 59.5}, "59.5 minutes is used up")],
)
def test_it_pauses_the_job_with_the_reason(alice, project, limits, words):
    job = running(project, alice, **limits)
    budget.enforce(job)
    job.refresh_from_db()
    assert job.state == "pausing" and words in job.reason
    last = job.timeline.last()
    assert last.actor is None and words in last.reason


@pytest.mark.parametrize("limits", [{}, {"amount": "2.1"}, {"minutes": 61}])
def test_below_its_limits_nothing_happens(alice, project, limits):
    job = running(project, alice, **limits)
    budget.enforce(job)
    job.refresh_from_db()
    assert job.state == "running"
