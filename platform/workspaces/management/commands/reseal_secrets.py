"""``manage.py reseal_secrets``: bring the secrets of all teams to the newest SECRET_KEY."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workspaces.vault import secrets_reseal


class Command(BaseCommand):
    help = "Encrypt every secret anew with SECRET_KEY, after which SECRET_KEY_FALLBACKS may be emptied."

    def handle(self, *args: Any, **options: Any) -> None:
        done, lost = secrets_reseal()
        self.stdout.write(f"{done} secret{'' if done == 1 else 's'} sealed with the current SECRET_KEY.")
        if lost:
            raise CommandError(
                f"{lost} cannot be read with any known key. Put the old SECRET_KEY into SECRET_KEY_FALLBACKS and run "
                f"this again, or have the teams set them anew."
            )
