"""How a component says that it gives no value."""

from __future__ import annotations


class Unscored(Exception):
    """A component that gives no value: for which row (by index; None: for all), why, and what to do about it.

    ``reason`` goes on where "The reward component 'x'" stops; ``detail`` follows it after a colon.
    """

    def __init__(self, row: int | None, reason: str, advice: str, detail: str = "") -> None:
        super().__init__(reason)
        self.row, self.reason, self.advice, self.detail = row, reason, advice, detail.rstrip(".")

    def sentence(self, name: str, place: str = "") -> str:
        return f"The reward component {name!r} {self.reason}{place}{': ' if self.detail else ''}{self.detail}."


def shown(text: str, length: int = 60) -> str:
    """A text as part of a message: one line, quoted, cut."""
    text = " ".join(text.split())
    return repr(text if len(text) <= length else text[: length - 1] + "…")
