"""A run that is killed or paused ends as the run that nothing disturbed: the same weights, the same curves."""

from __future__ import annotations

import pytest
from killing import Outcome, assert_same, kill_and_wait, kill_driver, outcome, submit
from running import Site

STEPS = 100


@pytest.fixture(scope="module")
def undisturbed(site: Site) -> Outcome:
    job = submit(site, STEPS)
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    return outcome(site, job)


def test_a_killed_driver_is_followed_by_another_and_nothing_differs(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 12)
    kill_driver(site)
    data = site.until_state(job, "succeeded", "failed")
    assert data["state"] == "succeeded", data
    first, second = job.attempts()
    assert (first["outcome"], second["outcome"]) == ("lost", "succeeded")
    assert second["first_step"] % 5 == 0 and 0 < second["first_step"] <= first["last_step"]
    found = outcome(site, job)
    assert_same(found, undisturbed)
    assert found.usage["work"] > 0 and found.usage["lost"] > 0, (
        "what came after the checkpoint is free, the rest is not"
    )
    steps = sorted({e["step"] for e in site.events(job) if e["kind"] == "metric" and "train/reward" in e["values"]})
    assert steps == list(range(1, STEPS + 1))


def test_a_paused_run_goes_on_as_if_it_had_not_been(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 7)
    job.pause("lunch.")
    data = site.until_state(job, "paused", seconds=30)
    assert data["reason"].startswith("lunch.") and "no step is lost" in data["reason"]
    job.pause()
    job.resume()
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    first, second = job.attempts()
    assert (first["outcome"], second["outcome"]) == ("paused", "succeeded")
    assert second["first_step"] == first["last_step"], "no step ran twice"
    found = outcome(site, job)
    assert_same(found, undisturbed)
    assert set(found.usage) == {"work"}


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
    assert_same(outcome(site, job), undisturbed)


@pytest.mark.full
def test_an_attempt_that_must_leave_its_node_loses_no_step(site, undisturbed):
    job = submit(site, STEPS)
    site.until_step(job, 2)
    site.ask(
        "import json\nfrom jobs.attempts import attempt_drain\nfrom jobs.models import Attempt\n"
        f"row = Attempt.objects.get(job='{job.id}')\n"
        "print(json.dumps(attempt_drain(attempt=row, reason='Its node is taken back.')))"
    )
    assert site.until_state(job, "succeeded", "failed")["state"] == "succeeded"
    first, second = job.attempts()
    assert second["first_step"] == first["last_step"]
    assert_same(outcome(site, job), undisturbed)
