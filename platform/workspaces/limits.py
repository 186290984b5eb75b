"""Rate limits that every process shares, kept as token buckets in Postgres."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from workspaces.models import RateBucket


@dataclass(frozen=True)
class Limit:
    """``burst`` at once, then one more every ``every_s`` seconds."""

    name: str
    burst: int
    every_s: float


SIGN_IN_BY_EMAIL = Limit("sign-in-email", 8, 60)
SIGN_IN_BY_ADDRESS = Limit("sign-in-address", 40, 15)
SIGN_UP_BY_ADDRESS = Limit("sign-up-address", 10, 60)
# Six digits, two of which are right at any time: at this pace a guess takes years.
SECOND_FACTOR = Limit("second-factor", 8, 60)
PASSWORD_AGAIN = Limit("password-again", 8, 60)
# Mails that anyone can have sent to an address: a forgotten password, a confirmation.
ACCOUNT_MAIL = Limit("account-mail", 5, 720)


@transaction.atomic
def take(limit: Limit, subject: str) -> bool:
    """Take one from the subject's bucket; False when it is empty."""
    key = _key(limit, subject)
    now = timezone.now()
    RateBucket.objects.get_or_create(key=key, defaults={"left": limit.burst, "filled_at": now})
    bucket = RateBucket.objects.select_for_update().get(key=key)
    gained = (now - bucket.filled_at).total_seconds() / limit.every_s
    left = min(float(limit.burst), bucket.left + max(0.0, gained))
    if left < 1:
        return False
    bucket.left, bucket.filled_at = left - 1, now
    bucket.save(update_fields=["left", "filled_at"])
    return True


def give_back(limit: Limit, subject: str) -> None:
    """Fill the subject's bucket again: what it counted turned out to be rightful."""
    RateBucket.objects.filter(key=_key(limit, subject)).delete()


def _key(limit: Limit, subject: str) -> str:
    return hashlib.sha256(f"{limit.name}:{subject}".encode()).hexdigest()
