"""``manage.py demo``: the product with one real job in it, followed in the terminal from start to result."""

from __future__ import annotations

import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.launcher.preflight import is_locked
from config.launcher.up import manage, up
from config.management.commands.up import add_address


class Command(BaseCommand):
    help = "Starts the product (or uses the one that runs), submits the demo job and shows how it goes."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_address(parser)
        parser.add_argument("--attached", action="store_true", help=SUPPRESS)

    def handle(self, *args: Any, host: str, port: int | None, attached: bool, **options: Any) -> None:
        if not attached and not is_locked(settings.HOME):
            sys.exit(up(host=host, port=port, guest=manage("demo", "--attached")))
        # The launcher's terminal: it stops the product at Ctrl-C, and this with it.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        from config.demo_watch import run

        try:
            sys.exit(run())
        except KeyboardInterrupt:
            sys.exit(130)
