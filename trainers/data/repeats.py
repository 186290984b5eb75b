"""Finds prompts that come again, word for word or nearly so, in memory of a bounded size."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal

from trainers.data.chats import folded
from trainers.data.rows import DataRow

REMEMBERED = 500_000
# Marks of sentences. Signs of formulas stay, and so does the point in 3.5.
_MARKS = re.compile("[;!?'\"“”‘’。！？、；…]|[.,:，：](?![0-9])")

Repeat = Literal["duplicate", "near_duplicate", "conflicting_answer"]


class Repeats:
    """Remembers the first row of each prompt, as two whole numbers; ``full`` once it takes in no more of them."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    @property
    def full(self) -> bool:
        return len(self._seen) >= REMEMBERED

    def add(self, row: DataRow) -> tuple[Repeat, int] | None:
        """What a row repeats, and the line of the first; None for a prompt that was not there before.

        Nearly the same are prompts that differ in white space, letter case, Unicode form or punctuation.
        """
        near, exact, answer = _hash(near_text(row)), _hash(row.key) >> 32, _hash(_answer(row)) >> 32
        known = self._seen.get(near)
        if known is None:
            if not self.full:
                self._seen[near] = row.line << 64 | exact << 32 | answer
            return None
        line, first_exact, first_answer = known >> 64, known >> 32 & 0xFFFFFFFF, known & 0xFFFFFFFF
        if answer != first_answer:
            return "conflicting_answer", line
        return ("duplicate" if exact == first_exact else "near_duplicate"), line


def near_text(row: DataRow) -> str:
    """The prompt without what a glance does not see."""
    turns = [message["content"] for message in row.prompt_messages if message["role"] != "system"]
    said = row.text if row.text is not None else "\n".join(turns)
    return " ".join(_MARKS.sub(" ", folded(said)).split()) or said


def _answer(row: DataRow) -> str:
    return repr(row.sides) if row.sides is not None else folded(row.answer or "")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
