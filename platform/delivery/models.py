"""The outbox: a message is a row first, so that it leaves once and survives every restart."""

from __future__ import annotations

import uuid

from django.db import models


class Message(models.Model):
    """One message to one recipient over one channel; ``key`` says what it is about and keeps it from leaving twice.

    The body of a ``private`` one (it carries a key) is sealed while it waits, and erased once it has left.
    """

    class State(models.TextChoices):
        DUE = "due", "waiting"
        SENDING = "sending", "being sent"
        SENT = "sent", "sent"
        FAILED = "failed", "given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    key = models.CharField(max_length=300, unique=True)
    channel = models.CharField(max_length=20, default="email")
    recipient = models.CharField(max_length=320)
    subject = models.CharField(max_length=300)
    text = models.TextField()
    html = models.TextField(blank=True)
    private = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DUE)
    tries = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(state__in=["due", "sending"]), name="message_due"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} → {self.recipient}"
