"""Sums: two numbers to add, and a second try after a wrong answer."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainers.envs.protocol import Environment, Turn, whole_number

TRIES = 2
SECOND_TRY = 0.5
_LARGEST = 10**9


class Sums:
    """Reward 1 for the right sum at once, 0.5 on the second try; the last number of an answer counts."""

    def reset(self, task: Mapping[str, Any]) -> str:
        self._a = whole_number(task, "a", -_LARGEST, _LARGEST)
        self._b = whole_number(task, "b", -_LARGEST, _LARGEST)
        self._tries = 0
        return f"What is {self._a} + {self._b}? Answer with the number only."

    def step(self, text: str) -> Turn:
        self._tries += 1
        numbers = re.findall(r"-?\d{1,12}", text.replace(",", ""))
        if numbers and int(numbers[-1]) == self._a + self._b:
            first = float(self._tries == 1)
            return Turn(None, 1.0 if first else SECOND_TRY, True, {"first_try": first})
        if self._tries < TRIES:
            return Turn("That is not right. Try once more, with the number only.", parts={"first_try": 0.0})
        return Turn(None, parts={"first_try": 0.0})


class SumsKind:
    name = "sums"
    title = "Sums, with a second try"

    def make(self) -> Environment:
        return Sums()

    def tasks(self, count: int, seed: int) -> Sequence[Mapping[str, Any]]:
        pairs = [(a, b) for a in range(10) for b in range(10)]
        random.Random(seed).shuffle(pairs)
        return [
            {"prompt": Sums().reset({"a": a, "b": b}), "answer": str(a + b), "a": a, "b": b} for a, b in pairs[:count]
        ]
