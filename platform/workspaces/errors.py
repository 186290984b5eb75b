"""How a service says no."""

from __future__ import annotations


class Refused(Exception):
    """What was asked cannot be done; the message is a plain sentence for the person who asked.

    ``field`` names the form field or setting it is about, when there is one.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
