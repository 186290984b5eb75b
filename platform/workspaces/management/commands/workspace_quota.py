"""``manage.py workspace_quota acme 50GB``: how much one team may store."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from decimal import Decimal
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workspaces import formats
from workspaces.models import Workspace
from workspaces.quota import usage_of
from workspaces.services import quota_set

UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|kB|MB|GB|TB|)")


class Command(BaseCommand):
    help = "Show or set how much a workspace may store: 50GB, unlimited, or default (the installation's limit)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its slug, as the names of its exports have it")
        parser.add_argument("size", nargs="?", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace.objects.filter(slug=options["workspace"]).first()
        if workspace is None:
            known = ", ".join(Workspace.objects.order_by("slug").values_list("slug", flat=True)[:50]) or "none"
            raise CommandError(f"There is no workspace {options['workspace']!r}. There are: {known}.")
        if options["size"]:
            quota_set(workspace=workspace, quota_bytes=_bytes(options["size"]))
        usage = usage_of(workspace)
        limit = formats.size(usage.limit) if usage.limit else "any amount"
        self.stdout.write(f"{workspace.slug} stores {formats.size(usage.used)} and may store {limit}.")


def _bytes(text: str) -> int | None:
    if text == "default":
        return None
    if text == "unlimited":
        return 0
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{text!r} is no size. Write 500MB, 50GB, 2TB, unlimited or default.")
    return int(Decimal(match["number"]) * UNITS[match["unit"]])
