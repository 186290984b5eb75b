"""A guessing game: find a number by being told higher or lower."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainers.envs.protocol import Environment, Turn, whole_number

_LARGEST = 10**6


class Guess:
    """Reward 1 at the first guess, falling in equal steps to 1 / tries at the last; 0 if it is not found.

    As many tries as halving needs, and one more.
    """

    def reset(self, task: Mapping[str, Any]) -> str:
        self._highest = whole_number(task, "highest", 2, _LARGEST)
        self._secret = whole_number(task, "secret", 1, self._highest)
        self._most = self._highest.bit_length() + 1
        self._tries = 0
        return (
            f"I think of a number from 1 to {self._highest}. Guess it in at most {self._most} tries. "
            "Answer with one number only."
        )

    def step(self, text: str) -> Turn:
        self._tries += 1
        numbers = re.findall(r"\d{1,9}", text)
        guess = int(numbers[-1]) if numbers else None
        parts = {"guesses": float(self._tries)}
        if guess == self._secret:
            return Turn(None, (self._most - self._tries + 1) / self._most, True, parts)
        if self._tries == self._most:
            return Turn(None, parts=parts)
        if guess is None:
            return Turn("That is no number. Answer with one number only.", parts=parts)
        return Turn(f"It is {'higher' if self._secret > guess else 'lower'}.", parts=parts)


class GuessKind:
    name = "guess"
    title = "Guess a number, higher or lower"

    def make(self) -> Environment:
        return Guess()

    def tasks(self, count: int, seed: int) -> Sequence[Mapping[str, Any]]:
        draw = random.Random(seed)
        pairs = [(highest, secret) for highest in range(8, 41) for secret in range(1, highest + 1)]
        draw.shuffle(pairs)
        # Tasks with the same highest number share their opening question; held-out ones then have none in common.
        return [
            {
                "prompt": Guess().reset({"highest": highest, "secret": secret}),
                "answer": str(secret),
                "highest": highest,
                "secret": secret,
            }
            for highest, secret in pairs[:count]
        ]
