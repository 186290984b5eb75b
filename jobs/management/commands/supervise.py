"""``manage.py supervise``: follow running jobs and schedule waiting ones, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from jobs.watch import Supervisor


class Command(BaseCommand):
    help = "Follows running jobs and schedules waiting ones. Any number may run at once; they share the work."

    def handle(self, *args: Any, **options: Any) -> None:
        alive = settings.HOME / "run" / "supervise.alive"
        alive.parent.mkdir(parents=True, exist_ok=True)
        asyncio.run(_supervise(Supervisor(alive)))


async def _supervise(supervisor: Supervisor) -> None:
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.stop)

    # Ray's core takes over SIGTERM whenever it connects, so we take it back after each time it may have.
    supervisor.after_ray = listen
    listen()
    await supervisor.run()
