"""What keeps the launcher from starting, in words for the person at the terminal."""

from __future__ import annotations

from pathlib import Path


class Problem(Exception):
    """Its text is a plain sentence that says what is wrong and what to do; the launcher prints it and ends."""


def part_failed(name: str, what: str, log: Path, tail: list[str]) -> Problem:
    """A part that did not become ready, with the last lines it wrote."""
    lines = "".join(f"\n    {line}" for line in tail)
    shown = f" The last lines of {log}:{lines}" if tail else f" It wrote nothing to {log}."
    return Problem(f"{name} {what}.{shown}")
