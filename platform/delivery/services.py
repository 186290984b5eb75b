"""Putting messages into the outbox, and sending what is due: each message leaves once, late rather than never."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from delivery import channels
from delivery.models import Message
from delivery.sealing import seal, unseal

logger = logging.getLogger(__name__)

MAX_TRIES = 12
CLAIM_SECONDS = 120
FIRST_RETRY_SECONDS = 15
ERASED = {"text": "", "html": ""}


def message_enqueue(
    *,
    key: str,
    recipient: str,
    subject: str,
    text: str,
    html: str = "",
    channel: str = "email",
    private: bool = False,
) -> bool:
    """Store a message in the caller's transaction. Returns False when one with this key is already there.

    ``key`` names the fact it tells of (``job:<id>:succeeded:<user>``), so a fact told twice is one message. The body of
    a ``private`` message, which carries a key, is sealed in the database and erased once it has left.
    """
    if private:
        text, html = seal(text), seal(html) if html else ""
    _, created = Message.objects.get_or_create(
        key=key,
        defaults={
            "channel": channel,
            "recipient": recipient,
            "subject": " ".join(subject.split())[:300],
            "text": text,
            "html": html,
            "private": private,
            "due_at": timezone.now(),
        },
    )
    return created


def send_due_messages(*, limit: int = 50) -> int:
    """Send what is due and return how many left. Any number of processes may run this at once."""
    sent = 0
    for message in _claim(limit):
        try:
            channels.get(message.channel).send(_opened(message))
        except Exception as error:
            _put_off(message, error)
        else:
            Message.objects.filter(pk=message.pk).update(
                state=Message.State.SENT,
                sent_at=timezone.now(),
                tries=F("tries") + 1,
                error="",
                **(ERASED if message.private else {}),
            )
            sent += 1
    return sent


def _opened(message: Message) -> Message:
    if message.private:
        message.text = unseal(message.text)
        message.html = unseal(message.html) if message.html else ""
    return message


def _claim(limit: int) -> list[Message]:
    """Take due messages for this process. A claim that outlives its process falls due again after two minutes."""
    now = timezone.now()
    stale = Q(state=Message.State.SENDING, claimed_at__lt=now - timedelta(seconds=CLAIM_SECONDS))
    due = Q(state=Message.State.DUE, due_at__lte=now)
    with transaction.atomic():
        rows = list(Message.objects.select_for_update(skip_locked=True).filter(due | stale).order_by("due_at")[:limit])
        Message.objects.filter(pk__in=[row.pk for row in rows]).update(state=Message.State.SENDING, claimed_at=now)
    return rows


def _put_off(message: Message, error: Exception) -> None:
    tries = message.tries + 1
    given_up = tries >= MAX_TRIES
    wait = min(FIRST_RETRY_SECONDS * 2**message.tries, 3600)
    logger.warning("message %s could not be sent (try %s): %s", message.pk, tries, error)
    Message.objects.filter(pk=message.pk).update(
        state=Message.State.FAILED if given_up else Message.State.DUE,
        tries=tries,
        error=str(error)[:2000],
        due_at=timezone.now() + timedelta(seconds=wait),
        **(ERASED if message.private and given_up else {}),
    )
