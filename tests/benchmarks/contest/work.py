"""The work that every contestant does: prompts, sizes and rewards, without any library of a contestant."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import asdict, dataclass
from typing import Any

Messages = list[dict[str, str]]

FILLER = (
    "A market opens at seven and closes at noon. Farmers bring apples, pears, plums, honey and bread, and people come "
    "from the villages around to buy them. On some days there is music, on others a magician shows tricks to children. "
)


@dataclass(frozen=True)
class Work:
    """One workload. ``reward``: ``sums`` can be learned; ``noise`` differs within each group, so that none is idle."""

    prompts: int = 8
    group: int = 8
    filler: int = 0  # copies of a passage of about 53 tokens before the question
    max_new: int = 16
    rank: int = 16
    alpha: float = 32.0
    rate: float = 1e-6
    steps: int = 4
    seed: int = 0
    reward: str = "noise"
    threads: int = 2

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


WORKLOADS = {
    "short": Work(),
    "long": Work(prompts=4, filler=3, max_new=32),
}


def questions(work: Work) -> list[tuple[Messages, str]]:
    """``(messages, answer)`` of ``steps`` batches of different one-digit sums, in the order of training."""
    draw = random.Random(work.seed)
    found: list[tuple[Messages, str]] = []
    while len(found) < work.prompts * work.steps:
        pairs = [(a, b) for a in range(10) for b in range(10)]
        draw.shuffle(pairs)
        for a, b in pairs[: len(pairs) // work.prompts * work.prompts]:
            text = f"{FILLER * work.filler}What is {a} + {b}? Answer with the number only."
            found.append(([{"role": "user", "content": text}], str(a + b)))
    return found[: work.prompts * work.steps]


def reward_of(work: Work, completion: str, answer: str) -> float:
    if work.reward == "noise":
        return hashlib.sha256(completion.encode()).digest()[0] / 255
    numbers = re.findall(r"-?\d+", completion)
    return float(bool(numbers) and int(numbers[-1]) == int(answer))
