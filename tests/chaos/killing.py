"""Runs that are killed or paused, and what they are held against: a run of the same task that nothing disturbed."""

from __future__ import annotations

import time
from typing import Any

import psutil
from running import Site, until

# What depends on the clock, not on the training.
OF_THE_CLOCK = ("system/", "time/")


def submit(site: Site, steps: int, every: int = 5) -> Any:
    return site.submit(steps, checkpointing={"every_steps": every}, seed=11)


def attempts(site: Site, job: Any) -> list[dict[str, Any]]:
    return site.ask(
        "import json\nfrom jobs.models import Attempt\n"
        f"rows = Attempt.objects.filter(job='{job.id}').order_by('number')\n"
        "print(json.dumps([{'number': r.number, 'pid': r.pid, 'outcome': r.outcome, 'first': r.first_step, "
        "'last': r.last_step, 'started': r.started_at and r.started_at.timestamp(), "
        "'ended': r.ended_at and r.ended_at.timestamp()} for r in rows]))"
    )


def kill_driver(site: Site, job: Any) -> None:
    pid = attempts(site, job)[-1]["pid"]
    psutil.Process(pid).kill()


def kill_and_wait(site: Site, job: Any, seconds: float = 60.0) -> float:
    """Kill the job's driver; the seconds until its next attempt trains."""
    before = attempts(site, job)[-1]["number"]
    begun = time.monotonic()
    kill_driver(site, job)

    def trains() -> bool:
        data = job.refresh().data
        assert data["state"] not in ("failed", "cancelled"), data
        return data["attempt"] > before and data["state"] in ("running", "finishing", "succeeded")

    until("the next attempt trains", trains, seconds)
    return time.monotonic() - begun


def outcome(site: Site, job: Any) -> dict[str, Any]:
    """The final weights' hashes, and each step's figures that do not depend on the clock."""
    files = site.ask(
        "import json\nfrom catalog.models import Checkpoint\n"
        f"print(json.dumps(Checkpoint.objects.get(made_by_id='{job.id}', final=True).files))"
    )
    curves = {
        key: [point[:2] for point in points]
        for key, points in job.metrics().items()
        if not key.startswith(OF_THE_CLOCK) and "second" not in key
    }
    return {"files": {file["name"]: file["sha256"] for file in files}, "curves": curves}


def assert_books_balance(site: Site, job: Any) -> dict[str, float]:
    """Each second of each lease is work or lost, and only work has lines; the devices are free. The seconds of each."""
    found = site.ask(
        "import json\nfrom django.db.models import Sum\nfrom billing.models import *\nfrom compute.models import *\n"
        f"leases = Lease.objects.filter(grant__request__holder_id='{job.id}')\n"
        "held = sum((l.during.upper - l.during.lower).total_seconds() for l in leases if l.during.upper)\n"
        f"usage = {{c: float(s) for c, s in Usage.objects.filter(used_by_id='{job.id}').values_list('category')"
        ".annotate(s=Sum('seconds'))}\n"
        f"lines = LedgerLine.objects.filter(used_by_id='{job.id}').aggregate(s=Sum('seconds'))['s']\n"
        "print(json.dumps([held, usage, float(lines or 0), leases.filter(during__upper_inf=True).count()]))"
    )
    held, usage, charged, still_held = found
    assert still_held == 0
    assert abs(sum(usage.values()) - held) < 1e-3
    assert abs(usage.get("work", 0.0) - charged) < 1e-3
    return usage
