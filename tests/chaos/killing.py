"""Runs that are killed or paused, and what they are held against: a run of the same task that nothing disturbed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from running import Site, until

# What depends on the clock, not on the training.
OF_THE_CLOCK = ("system/", "time/")


def submit(site: Site, steps: int, every: int = 5) -> Any:
    return site.submit(steps, checkpointing={"every_steps": every}, seed=11)


def kill_driver(site: Site) -> None:
    """Kill the one driver that runs."""
    (driver,) = until("a driver runs", lambda: site.processes("ray::Driver"), 20)
    driver.kill()


def kill_and_wait(site: Site, job: Any, seconds: float = 60.0) -> float:
    """Kill the job's driver; the seconds until its next attempt trains."""
    before = job.refresh().data["attempt"]
    begun = time.monotonic()
    kill_driver(site)

    def trains() -> bool:
        data = job.refresh().data
        assert data["state"] not in ("failed", "cancelled"), data
        return data["attempt"] > before and data["state"] in ("running", "finishing", "succeeded")

    until("the next attempt trains", trains, seconds)
    return time.monotonic() - begun


@dataclass(frozen=True)
class Outcome:
    """``weights``: hashes of the final files; ``curves``: each step's figures that do not depend on the clock.

    ``usage``: seconds of devices by what they were.
    """

    weights: dict[str, str]
    curves: dict[str, list[list[Any]]]
    usage: dict[str, float]


def outcome(site: Site, job: Any) -> Outcome:
    """What a job that has ended came to. Its books balance: each second of each lease is work or lost, only work has
    lines, and no device is held any more."""
    files, held, usage, charged, still_held = site.ask(
        "import json\nfrom django.db.models import Sum\nfrom billing.models import *\nfrom compute.models import *\n"
        "from catalog.models import Checkpoint\n"
        f"leases = Lease.objects.filter(grant__request__holder_id='{job.id}')\n"
        "held = sum((l.during.upper - l.during.lower).total_seconds() for l in leases if l.during.upper)\n"
        f"usage = {{c: float(s) for c, s in Usage.objects.filter(used_by_id='{job.id}').values_list('category')"
        ".annotate(s=Sum('seconds'))}\n"
        f"lines = LedgerLine.objects.filter(used_by_id='{job.id}').aggregate(s=Sum('seconds'))['s']\n"
        f"final = Checkpoint.objects.filter(made_by_id='{job.id}', final=True).first()\n"
        "print(json.dumps([final.files if final else [], held, usage, float(lines or 0), "
        "leases.filter(during__upper_inf=True).count()]))"
    )
    assert still_held == 0
    assert abs(sum(usage.values()) - held) < 1e-3
    assert abs(usage.get("work", 0.0) - charged) < 1e-3
    curves = {
        key: [point[:2] for point in points]
        for key, points in job.metrics().items()
        if not key.startswith(OF_THE_CLOCK) and "second" not in key
    }
    return Outcome({file["name"]: file["sha256"] for file in files}, curves, usage)


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.weights == other.weights
    assert one.curves == other.curves
