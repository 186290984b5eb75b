"""A run that is killed or paused ends as the run that nothing disturbed: the same weights, the same curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from killing import assert_books_balance, attempts, kill_and_wait, kill_driver, outcome, submit
from running import Site, until

STEPS = 150


@pytest.fixture(scope="module")
def undisturbed(site: Site) -> Iterator[dict[str, Any]]:
    job = submit(site, STEPS)
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    yield outcome(site, job)


def test_a_killed_driver_is_followed_by_another_and_nothing_differs(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 12)
    kill_driver(site, job)
    data = site.until_state(job, "recovering", "running", seconds=10)
    data = site.until_state(job, "succeeded", "failed")
    assert data["state"] == "succeeded", data
    first, second = attempts(site, job)
    assert (first["outcome"], second["outcome"]) == ("lost", "succeeded")
    assert second["first"] in (10, 15, 20, 25) and second["first"] <= first["last"]
    assert outcome(site, job) == undisturbed
    usage = assert_books_balance(site, job)
    assert 0 < usage["lost"] < usage["work"], "only what came after the checkpoint is free"
    steps = sorted({e["step"] for e in site.events(job) if e["kind"] == "metric" and "train/reward" in e["values"]})
    assert steps == list(range(1, STEPS + 1))


def test_a_paused_run_goes_on_as_if_it_had_not_been(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 7)
    job.pause("lunch")
    data = site.until_state(job, "paused", seconds=30)
    assert "lunch" in data["reason"] and "no step is lost" in data["reason"]
    assert_books_balance(site, job)
    job.pause()
    job.resume()
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    first, second = attempts(site, job)
    assert (first["outcome"], second["outcome"]) == ("paused", "succeeded")
    assert second["first"] == first["last"], "no step ran twice"
    assert outcome(site, job) == undisturbed
    assert set(assert_books_balance(site, job)) == {"work"}


@pytest.mark.full
@pytest.mark.parametrize("phase", ["starting", "checkpointing"])
def test_a_driver_killed_while(site, undisturbed, phase):
    job = submit(site, STEPS, every=1 if phase == "checkpointing" else 5)
    if phase == "starting":
        site.until_state(job, "starting", "running")
    else:
        site.until_step(job, 9)  # with one after every step, one is nearly always on its way
    kill_and_wait(site, job)
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    assert outcome(site, job)["files"] == undisturbed["files"]
    assert_books_balance(site, job)


@pytest.mark.full
def test_an_attempt_that_must_leave_its_node_loses_no_step(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 7)
    site.ask(
        "import json\nfrom jobs.attempts import attempt_drain\nfrom jobs.models import Attempt\n"
        f"row = Attempt.objects.get(job='{job.id}')\n"
        "print(json.dumps(attempt_drain(attempt=row, reason='Its node is taken back.')))"
    )
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    first, second = attempts(site, job)
    assert second["first"] == first["last"] and outcome(site, job) == undisturbed
    until("the devices are free", lambda: assert_books_balance(site, job))
