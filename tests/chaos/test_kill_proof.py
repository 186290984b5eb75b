"""A run killed five times gives the weights of the run never killed; what that costs is measured."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Any

import proofs
import pytest
from killing import assert_same, kill_and_wait, outcome, submit

STEPS, EVERY, KILLS = 400, 5, 5
COMMAND = "make prove PYTEST_ARGS='tests/chaos/test_kill_proof.py'"

pytestmark = pytest.mark.prove


def noticed_after_s(site: Any, job: Any) -> list[float]:
    """Seconds from the last sign of life of each lost attempt to the line in the timeline that says it was lost."""
    return site.ask(
        "import json\nfrom jobs.models import *\n"
        f"lost = Attempt.objects.filter(job='{job.id}', outcome='lost').order_by('number')\n"
        "print(json.dumps([round((a.ended_at - a.last_seen_at).total_seconds(), 2) for a in lost]))"
    )


def stood_still_s(site: Any, job: Any) -> list[float]:
    """Seconds for which each checkpoint held up the training, from the log."""
    return site.ask(
        "import json, re\nfrom records.models import LogLine\n"
        f"rows = LogLine.objects.filter(subject_id='{job.id}', text__contains='training stood still for')\n"
        "print(json.dumps([float(re.search(r'still for ([0-9.]+) s', r.text)[1]) for r in rows]))"
    )


def test_a_run_killed_five_times_ends_as_the_run_never_killed(site):
    whole = submit(site, STEPS, EVERY)
    assert site.until_state(whole, "succeeded", "failed", seconds=600)["state"] == "succeeded"
    job = submit(site, STEPS, EVERY)
    resumed = []
    for kill in range(KILLS):
        site.until_step(job, (kill + 1) * STEPS // (KILLS + 2), seconds=300)
        resumed.append(round(kill_and_wait(site, job), 2))
    assert site.until_state(job, "succeeded", "failed", seconds=600)["state"] == "succeeded"
    found = outcome(site, job)
    assert_same(found, outcome(site, whole))
    tried = job.attempts()
    assert [row["outcome"] for row in tried] == ["lost"] * KILLS + ["succeeded"]
    lost = [before["last_step"] - after["first_step"] for before, after in pairwise(tried)]
    assert all(0 <= steps <= 3 * EVERY for steps in lost)
    usage = found.usage
    stood = stood_still_s(site, whole)
    proofs.write(
        "killed-five-times",
        COMMAND,
        {
            "steps": STEPS,
            "checkpoint every steps": EVERY,
            "kills": KILLS,
            "same weights": True,
            "same curves": True,
            "noticed after s": noticed_after_s(site, job),
            "trains again after s": resumed,
            "median trains again after s": median(resumed),
            "steps run again": lost,
            "device seconds charged": round(usage["work"], 1),
            "device seconds free": round(usage.get("lost", 0.0), 1),
            "checkpoints": len(stood),
            "median s that training stood still per checkpoint": median(stood),
        },
    )
