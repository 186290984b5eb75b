"""The supervisor: one asyncio process that follows every running driver and keeps the scheduler ticking.

More of them share the work by claiming rows. Everything that blocks runs in threads; one slow or broken driver delays
nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, close_old_connections

from billing.services import price_ensure
from compute import services as compute
from compute.models import Pool
from jobs import follow, sweeping
from jobs.supervision import Superseded, attempts_claim, attempts_release
from trainers.runtime import launch

logger = logging.getLogger(__name__)
T = TypeVar("T")

CLAIM_EVERY_S = 1.0
TICK_EVERY_S = 0.5
NODES_EVERY_S = 2.0
SWEEP_EVERY_S = 5.0
SILENT_EVERY_S = 2.0
THREADS = 64


class Supervisor:
    """Runs until ``stop`` is called. ``alive_file`` is touched with every round, for whoever watches this process.

    ``after_ray`` is called in the loop's thread after every look at Ray.
    """

    def __init__(self, alive_file: Path | None = None) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns():x}"
        self.alive_file = alive_file
        self.after_ray: Callable[[], None] = lambda: None
        self._stop = asyncio.Event()
        self._followed: dict[UUID, asyncio.Task[None]] = {}
        self._rounds: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="supervise"))
        self._rounds = [
            asyncio.create_task(self._every(CLAIM_EVERY_S, self._claim)),
            asyncio.create_task(self._every(TICK_EVERY_S, self._tick)),
            asyncio.create_task(self._every(NODES_EVERY_S, self._nodes)),
            asyncio.create_task(self._every(SWEEP_EVERY_S, self._sweep)),
        ]
        await self._stop.wait()
        tasks = [*self._rounds, *self._followed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _thread(attempts_release, watcher=self.name)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat ``work``; an error is logged and the next round tries again, later each time up to 10 s."""
        failures = 0
        while True:
            try:
                await work()
                failures = 0
            except Exception as error:
                failures += 1
                logger.warning("%s failed (%s in a row): %s", work.__name__, failures, error)
            await asyncio.sleep(min(seconds * 2 ** min(failures, 5), 10) if failures else seconds)

    async def _claim(self) -> None:
        mine = await _thread(attempts_claim, watcher=self.name)
        self._followed = {id: task for id, task in self._followed.items() if not task.done()}
        for attempt_id in mine:
            if attempt_id not in self._followed:
                self._followed[attempt_id] = asyncio.create_task(self._follow(attempt_id))
        if self.alive_file is not None:
            await _thread(self.alive_file.touch)

    async def _follow(self, attempt_id: UUID) -> None:
        failures = 0
        while True:
            try:
                pause = await _thread(follow.look, attempt_id=attempt_id, watcher=self.name)
                if pause is None:
                    return
                failures = 0
                await asyncio.sleep(pause)
            except Superseded:
                return
            except Exception as error:
                failures += 1
                unexpected = not isinstance(error, launch.RuntimeUnavailable | DatabaseError)
                logger.warning(
                    "could not follow attempt %s (%s in a row): %s", attempt_id, failures, error, exc_info=unexpected
                )
                # A driver that does not answer is asked again soon: its node may have died.
                longest = SILENT_EVERY_S if isinstance(error, launch.RuntimeUnavailable) else 10.0
                await asyncio.sleep(min(0.5 * 2 ** min(failures, 5), longest))

    async def _tick(self) -> None:
        await _thread(compute.tick)

    async def _nodes(self) -> None:
        try:
            await _thread(_sync_nodes)
        finally:
            self.after_ray()

    async def _sweep(self) -> None:
        await _thread(sweeping.sweep)


def _sync_nodes() -> None:
    launch.connect(settings.RAY_ADDRESS, settings.RAY_NAMESPACE)
    compute.nodes_sync(found=launch.cluster_nodes())
    for pool in Pool.objects.filter(prices=None):
        price_ensure(pool=pool)


async def _thread(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    def run() -> T:
        # A connection that broke while this thread idled is dropped here rather than failing the work.
        close_old_connections()
        return call(*args, **kwargs)

    return await asyncio.to_thread(run)
