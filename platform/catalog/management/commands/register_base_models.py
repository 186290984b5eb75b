"""``manage.py register_base_models``: make the base models that the engine knows choosable in every project."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from catalog.services import base_models_register


class Command(BaseCommand):
    help = "Register the base models the engine knows by name; running it again brings them up to date."

    def handle(self, *args: Any, **options: Any) -> None:
        for model in base_models_register():
            self.stdout.write(f"{model.name}: {model.title}")
