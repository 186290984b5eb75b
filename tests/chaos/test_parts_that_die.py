"""Killing the parts of a running product: training goes on, and afterwards every event is there exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from running import Site, until

STEPS = 150


def assert_whole(site: Site, job: Any, steps: int) -> None:
    """Every step has one metric event, and the journal's numbers have no gap and no double."""
    events = site.events(job)
    metric_steps = Counter(e["step"] for e in events if e["kind"] == "metric" and "train/reward" in e["values"])
    assert metric_steps == dict.fromkeys(range(1, steps + 1), 1)
    stored = site.ask(
        "import json\n"
        "from django.db.models import Count\n"
        "from records.models import *\n"
        f"rows = MetricPoint.objects.filter(series__subject_id='{job.id}', series__key='train/reward')\n"
        "print(json.dumps([list(rows.order_by('step').values_list('step', flat=True)), "
        f"Series.objects.get(subject_id='{job.id}', key='train/reward').points]))"
    )
    assert stored == [list(range(1, steps + 1)), steps]


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(("celery", "worker"), id="worker"),
        pytest.param(("manage.py", "supervise"), id="supervisor", marks=pytest.mark.full),
    ],
)
def test_training_outlives_the_part_and_loses_no_event(site, part):
    job = site.submit(STEPS)
    site.until_step(job, 5)
    victims = site.processes(*part)
    assert victims
    driver = site.ask(
        f"import json; from jobs.models import *; print(json.dumps(Attempt.objects.get(job='{job.id}').pid))"
    )
    for victim in victims:
        victim.kill()
    data = site.until_state(job, "succeeded", "failed")
    assert data["state"] == "succeeded", data
    attempts = site.ask(
        f"import json; from jobs.models import *; print(json.dumps(list(Attempt.objects.filter(job='{job.id}')"
        ".values_list('number', 'pid', 'outcome'))))"
    )
    assert attempts == [[1, driver, "succeeded"]], "the same run went on"
    assert_whole(site, job, STEPS)
    until("the part is back", lambda: site.processes(*part))


def test_cancel_stops_a_running_job_and_frees_its_devices(site):
    job = site.submit(5000)
    waiting = site.submit(5000)
    site.until_step(job, 2)
    assert waiting.refresh().data["state"] == "queued"
    job.cancel("seen enough")
    data = site.until_state(job, "cancelled", seconds=20)
    assert data["reason"] == "seen enough"
    site.until_step(waiting, 1)


@pytest.mark.full
def test_everything_at_once(site):
    job = site.submit(STEPS)
    site.until_step(job, 5)
    for part in (
        ("celery", "worker"),
        ("celery", "beat"),
        ("manage.py", "supervise"),
        ("valkey",),
        ("launcher.serve",),
    ):
        for victim in site.processes(*part):
            victim.kill()

    def ended() -> bool:
        try:
            return bool(job.refresh().data["ended"])
        except Exception:
            return False

    until("the job has ended", ended, 180)
    assert job.refresh().data["state"] == "succeeded"
    assert_whole(site, job, STEPS)
