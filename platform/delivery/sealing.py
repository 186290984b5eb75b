"""Encryption of the few texts that must not lie readable in the database: mails with keys, secrets of teams.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key derived by HKDF (RFC 5869) from
``SECRET_KEY``. What was sealed under one of ``SECRET_KEY_FALLBACKS`` is still read, and ``reseal`` brings it to the
newest.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

PURPOSE = b"tuneyard sealed texts v1"


class Unreadable(Exception):
    """A sealed text that no known key opens: SECRET_KEY was changed without keeping the old one as a fallback."""


def seal(text: str) -> str:
    """``text`` encrypted; sealing it twice gives two different results."""
    return _box().encrypt(text.encode("utf-8", "surrogatepass")).decode("ascii")


def unseal(sealed: str) -> str:
    """The text inside. Raises :class:`Unreadable`."""
    try:
        return _box().decrypt(sealed.encode("ascii", "replace")).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise Unreadable("No known SECRET_KEY opens this sealed text.") from None


def reseal(sealed: str) -> str:
    """The same text under the newest key. Raises :class:`Unreadable`."""
    try:
        return _box().rotate(sealed.encode("ascii", "replace")).decode("ascii")
    except InvalidToken:
        raise Unreadable("No known SECRET_KEY opens this sealed text.") from None


def reseal_rows(rows: QuerySet[Any], change: Callable[[Any], list[str]]) -> tuple[int, int]:
    """Bring what each row keeps sealed to the newest key; how many were, and how many no known key opens.

    ``change`` reseals a row's texts in place and returns the names of the fields to save; it may raise
    :class:`Unreadable`. Each row is locked on its own, so that nothing else waits for all of them.
    """
    done = lost = 0
    for pk in list(rows.values_list("pk", flat=True)):
        with transaction.atomic():
            row = rows.select_for_update().filter(pk=pk).first()
            if row is None:
                continue
            try:
                fields = change(row)
            except Unreadable:
                lost += 1
                continue
            row.save(update_fields=fields)
            done += 1
    return done, lost


def _box() -> MultiFernet:
    return _box_of(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@lru_cache(maxsize=8)
def _box_of(*keys: str) -> MultiFernet:
    return MultiFernet([Fernet(_derived(key)) for key in keys])


def _derived(key: str) -> bytes:
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE)
    return base64.urlsafe_b64encode(derivation.derive(key.encode()))
