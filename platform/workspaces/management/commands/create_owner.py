"""``manage.py create_owner --email ada@example.org``: the first person of an installation."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workspaces import services
from workspaces.errors import Refused


class Command(BaseCommand):
    help = "Create a person with a workspace of their own. The password is asked for, or read from TUNEYARD_PASSWORD."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--email", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--workspace", default="My team")

    def handle(self, *args: Any, **options: Any) -> None:
        password = os.environ.get("TUNEYARD_PASSWORD", "")
        if not password:
            if not sys.stdin.isatty():
                raise CommandError("Set TUNEYARD_PASSWORD, or run this in a terminal to be asked for the password.")
            password = getpass.getpass("Password (at least 10 characters): ")
        try:
            user, workspace = services.owner_create(
                email=options["email"], password=password, name=options["name"], workspace_name=options["workspace"]
            )
        except Refused as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"{user.email} can sign in now, and owns the workspace “{workspace.name}”.")
