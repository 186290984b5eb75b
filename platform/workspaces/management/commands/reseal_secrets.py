"""``manage.py reseal_secrets``: bring secrets of teams and keys of authenticators to the newest SECRET_KEY."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workspaces.sign_in.people import factors_reseal
from workspaces.vault import secrets_reseal


class Command(BaseCommand):
    help = "Encrypt secrets and keys of authenticators anew; then SECRET_KEY_FALLBACKS may be emptied."

    def handle(self, *args: Any, **options: Any) -> None:
        done, lost = secrets_reseal()
        self.stdout.write(f"{done} secret{'' if done == 1 else 's'} sealed with the current SECRET_KEY.")
        keys, lost_keys = factors_reseal()
        self.stdout.write(f"{keys} key{'' if keys == 1 else 's'} of authenticators sealed with it.")
        if lost_keys:
            self.stderr.write(
                f"{lost_keys} of authenticators cannot be read; their people sign in with another factor."
            )
        if lost:
            raise CommandError(
                f"{lost} cannot be read with any known key. Put the old SECRET_KEY into SECRET_KEY_FALLBACKS and run "
                f"this again, or have the teams set them anew."
            )
