"""``manage.py up``: the whole product on this machine, as one process."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand

from config.launcher.up import up


class Command(BaseCommand):
    help = "Starts every part of the product, prints its address, and stops all of it on Ctrl-C."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_address(parser)

    def handle(self, *args: Any, host: str, port: int | None, **options: Any) -> None:
        sys.exit(up(host=host, port=port))


def add_address(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default=os.environ.get("LISTEN", "127.0.0.1"), help="address to listen on")
    parser.add_argument(
        "--port",
        type=port_number,
        default=os.environ.get("PORT") or None,
        help="port to listen on (else PORT, else the first free one from 8000; 0: any free one)",
    )


def port_number(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)
