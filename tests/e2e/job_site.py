"""Job pages served as in production, sockets included, and the rows that make them full."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.db import connection

from config.asgi import application


@contextmanager
def serving(port: int = 0) -> Iterator[str]:
    """The product's ASGI application in this process: tests and pages share one database. Port 0: a free one."""
    config = uvicorn.Config(
        ASGIStaticFilesHandler(application), port=port, log_level="warning", lifespan="off", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the server does not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(10)


def curves(steps: int) -> dict[str, list[float]]:
    """What a run that learns looks like: noisy, rising, with a gap and a value at zero."""
    noise = [math.sin(12.9898 * n) * 43758.5453 % 1 - 0.5 for n in range(steps)]
    rise = [1 - math.exp(-3 * n / steps) for n in range(steps)]
    both = list(zip(rise, noise, strict=True))
    kl = [0.02 * r + 0.004 * e for r, e in both]
    kl[steps // 2] = math.nan
    return {
        "train/reward": [0.2 + 0.9 * r + 0.2 * e for r, e in both],
        "train/accuracy": [min(1.0, max(0.0, 0.2 + 0.75 * r + 0.15 * e)) for r, e in both],
        "train/loss": [0.08 - 0.07 * r + 0.02 * e for r, e in both],
        "train/kl": kl,
        "train/entropy": [1.4 - r + 0.1 * e for r, e in both],
        "train/completion_tokens": [14 - 8 * r + 2 * e for r, e in both],
        "train/learning_rate": [2e-4] * steps,
        "eval/accuracy": [0.25 + 0.7 * r for r in rise],
        "eval/accuracy_greedy": [0.28 + 0.7 * r for r in rise],
        "reward/right": [0.2 + 0.75 * r + 0.15 * e for r, e in both],
        "reward/short": [0.05 + 0.04 * r for r in rise],
        "system/step_s": [5.7 + e for e in noise],
        "system/sample_tokens_per_s": [412 + 30 * e for e in noise],
    }


def aside(call: Callable[[], Any]) -> Any:
    """Run what supervision would do, in a thread: the browser's own loop runs in this one, and hints need theirs."""

    def run() -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(30)


def job_tabs() -> tuple[str, ...]:
    return ("charts", "rollouts", "log", "timeline", "cost", "config")


def settle(page: Any) -> None:
    """Wait until the page has everything the server had to tell."""
    page.wait_for_selector("body[data-caught-up]", state="attached")


def until(page: Any, condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        page.wait_for_timeout(20)
