"""A nudge to the outbox. It may be lost: the schedule finds the message anyway."""

from __future__ import annotations


def mail_waiting() -> None:
    """Have the outbox sent now rather than at its next turn."""
    from delivery.tasks import send_due_messages

    send_due_messages.delay()
