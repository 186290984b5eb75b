"""Text that people type, put in order before it is kept."""

from __future__ import annotations


def one_line(text: str) -> str:
    """One line with single spaces; what cannot be seen (NUL, line breaks, control characters) counts as a space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
