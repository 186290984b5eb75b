"""What the database itself refuses."""

from __future__ import annotations

import pytest
from django.core.management import call_command

pytestmark = pytest.mark.django_db


def test_the_migrations_hold_everything_the_models_say():
    call_command("makemigrations", "--check", "--dry-run")
