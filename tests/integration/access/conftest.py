"""One team for all tests of a file. Django is imported inside: this file may be read before it is set up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[Any]:
    """A team with one of everything and everybody who might ask for it, gone after the tests of the file."""
    from access_world import build
    from django.db import transaction

    with django_db_blocker.unblock(), transaction.atomic():
        yield build()
        transaction.set_rollback(True)


@pytest.fixture
def db(world: Any) -> Iterator[None]:
    """In place of the plugin's: what a test changes is undone after it, but the team stays."""
    from django.core.cache import cache
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    cache.clear()
