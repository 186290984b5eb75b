"""What keeps a file from being read as data at all."""

from __future__ import annotations


class UnreadableFile(ValueError):
    """A file that is no dataset as a whole. ``line`` is where reading stopped, if it got that far."""

    def __init__(self, message: str, advice: str, line: int | None = None, kind: str = "unreadable") -> None:
        super().__init__(message)
        self.message, self.advice, self.line, self.kind = message, advice, line, kind
