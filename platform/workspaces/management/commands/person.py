"""``manage.py person ada@example.org off``: turn an account off or on."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workspaces.models import User
from workspaces.people import person_activate, person_deactivate


class Command(BaseCommand):
    help = "Turn a person's account off (sessions, sockets and tokens end at once) or on again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email")
        parser.add_argument("state", choices=["on", "off"])

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["email"]).first()
        if user is None:
            raise CommandError(f"Nobody has the address {options['email']!r}.")
        change = person_activate if options["state"] == "on" else person_deactivate
        change(user=user, actor=None)
        self.stdout.write(f"The account of {user.email} is {options['state']}.")
