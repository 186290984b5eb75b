"""The launcher's lines on the terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

GREEN, YELLOW, RED, DIM, BOLD = "32", "33", "31", "2", "1"


class Screen:
    """Writes one line per event; a terminal that has gone away is no reason to fail."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.colored = self.stream.isatty()

    def line(self, text: str = "") -> None:
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text + "\n")
            self.stream.flush()

    def part(self, name: str, word: str, seconds: float | None = None, detail: str = "") -> None:
        took = f"{seconds:5.1f} s" if seconds is not None else " " * 7
        color = {"ready": GREEN, "done": GREEN, "given": GREEN, "unchanged": DIM}.get(word, YELLOW)
        self.line(f"  {name:<13} {self.paint(f'{word:<10}', color)} {took}  {self.paint(detail, DIM)}".rstrip())

    def trouble(self, text: str) -> None:
        self.line(self.paint(text, RED))

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colored and text else text
