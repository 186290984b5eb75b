"""The ways a message can leave, one package each."""

from __future__ import annotations

from typing import Protocol

from delivery.channels import email
from delivery.models import Message


class Channel(Protocol):
    def send(self, message: Message) -> None:
        """Send one message; any exception means that it did not leave and is tried again later."""
        ...


_channels: dict[str, Channel] = {"email": email.EmailChannel()}


def get(name: str) -> Channel:
    return _channels[name]
