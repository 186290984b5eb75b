"""``manage.py prepare``: bring the database up to date before the site is served; running it again changes nothing."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Applies the migrations and registers the base models."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=1, stdout=self.stdout)
        call_command("register_base_models", stdout=self.stdout)
