"""A limit on how long the database may look for something while a person waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.utils import OperationalError


class TooSlow(Exception):
    """The search took longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Inside, a query may take only so long. Raises :class:`TooSlow`."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = %s", [seconds * 1000])
            yield
            cursor.execute("SET LOCAL statement_timeout = 0")
    except OperationalError as error:
        if "statement timeout" in str(error):
            raise TooSlow from None
        raise
