"""What tests do to a running product: submit small jobs that train for real, look, and wait."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil

from tuneyard import Client


def until(what: str, probe: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of ``probe``, asked for until the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)
    return value


@dataclass
class Site:
    stack: Any
    client: Client
    source: str
    sign_in: tuple[str, str]
    jobs: list[Any] = field(default_factory=list)

    def submit(self, steps: int, **parts: Any) -> Any:
        spec = {
            "name": f"sums in {steps} steps",
            "recipe": "grpo",
            "model": {"base": "tiny-random-llama"},
            "data": {"source": self.source},
            "reward": {"components": [{"kind": "length", "maximum": 8}]},
            "sampling": {"group_size": 4, "max_new_tokens": 8},
            "hyperparameters": {"steps": steps, "batch_size": 2},
            "evaluation": {"prompts": 2, "samples_per_prompt": 2, "every_steps": 0},
        } | parts
        job = self.client.jobs.submit(spec)
        self.jobs.append(job)
        return job

    def until_step(self, job: Any, step: int, seconds: float = 120.0) -> None:
        def reached() -> bool:
            data = job.refresh().data
            assert data["state"] not in ("failed", "cancelled"), data
            return int(data["step"]) >= step

        until(f"step {step}", reached, seconds)

    def until_state(self, job: Any, *states: str, seconds: float = 120.0) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            data = job.refresh().data
            return data if data["state"] in states else None

        return until(" or ".join(states), reached, seconds)

    def events(self, job: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = self.client.jobs.events(job.id, after=cursor)
            found += answer["events"]
            cursor = answer["cursor"]
            if not answer["more"]:
                return found

    def processes(self, *words: str) -> list[psutil.Process]:
        """Living processes of this installation whose command line holds all the words."""
        found = []
        for process in psutil.Process(self.stack.process.pid).children(recursive=True):
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if all(word in line for word in words):
                found.append(process)
        return found

    def ask(self, code: str) -> Any:
        """What a piece of code run by ``manage.py shell`` prints last, as JSON."""
        return json.loads(self.stack.manage("shell", "-c", code).stdout.strip().splitlines()[-1])

    def clear(self) -> None:
        """End what still runs: devices are few, and the next test wants them."""
        for job in self.jobs:
            if not job.refresh().data["ended"]:
                job.cancel()
        for job in self.jobs:
            self.until_state(job, "succeeded", "failed", "cancelled")
        self.jobs.clear()
