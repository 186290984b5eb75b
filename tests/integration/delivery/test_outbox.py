"""Messages leave once, late rather than never."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail
from django.utils import timezone

from delivery import channels
from delivery.models import Message
from delivery.services import MAX_TRIES, message_enqueue, send_due_messages

pytestmark = pytest.mark.django_db


def put(key: str = "job:1:failed") -> bool:
    return message_enqueue(key=key, recipient="a@example.org", subject="It\nfailed", text="why", html="<b>why</b>")


def test_a_fact_told_twice_is_one_mail():
    assert put() and not put()
    assert send_due_messages() == 1 and send_due_messages() == 0
    (sent,) = mail.outbox
    assert (sent.subject, sent.to, sent.body) == ("It failed", ["a@example.org"], "why")
    assert sent.alternatives[0][0] == "<b>why</b>"
    assert Message.objects.get().state == "sent"


def test_a_server_that_is_down_delays_and_loses_nothing(monkeypatch):
    put()

    class Down:
        def send(self, message):
            raise ConnectionRefusedError("no mail server")

    real = channels.get
    monkeypatch.setattr(channels, "get", lambda name: Down())
    assert send_due_messages() == 0
    message = Message.objects.get()
    assert message.state == "due" and message.due_at > timezone.now() and "no mail server" in message.error
    monkeypatch.setattr(channels, "get", real)
    assert send_due_messages() == 0, "not before it is due again"
    Message.objects.update(due_at=timezone.now())
    assert send_due_messages() == 1 and len(mail.outbox) == 1


def test_it_gives_up_in_the_end_and_says_why(monkeypatch):
    put()

    class Refuses:
        def send(self, message):
            raise ValueError("no such mailbox")

    monkeypatch.setattr(channels, "get", lambda name: Refuses())
    for _ in range(MAX_TRIES):
        Message.objects.update(due_at=timezone.now())
        send_due_messages()
    message = Message.objects.get()
    assert (message.state, message.tries, message.error) == ("failed", MAX_TRIES, "no such mailbox")


def test_a_sender_that_died_in_the_middle_does_not_keep_the_message():
    put()
    Message.objects.update(state="sending", claimed_at=timezone.now())
    assert send_due_messages() == 0
    Message.objects.update(claimed_at=timezone.now() - timedelta(minutes=3))
    assert send_due_messages() == 1
