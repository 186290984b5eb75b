"""Reading the mails about a person's account where they wait to be sent."""

from __future__ import annotations

import re

from delivery.models import Message
from delivery.sealing import unseal


def mails_to(address: str) -> list[str]:
    """Subject and text of each, the oldest first."""
    rows = Message.objects.filter(recipient__iexact=address).order_by("created_at")
    return [f"{row.subject}\n{unseal(row.text) if row.private else row.text}" for row in rows]


def link_in(mail: str) -> str:
    found = re.search(r"^https?://\S+$", mail, re.MULTILINE)
    assert found is not None, mail
    return found[0]
