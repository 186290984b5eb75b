"""The sums dataset: additions of small numbers, with held-out pairs that training never sees in either order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TEMPLATE = "What is {a} + {b}?"


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows ``{"question", "answer", "a", "b"}``: no unordered pair {a, b} is in both lists, no question comes twice."""

    train: list[dict[str, Any]]
    held_out: list[dict[str, Any]]


def make_sums(
    *,
    smallest: int = 1,
    largest: int = 9,
    held_out_pairs: int = 12,
    train_rows: int | None = None,
    seed: int = 0,
    template: str = TEMPLATE,
) -> Sums:
    """All sums a + b with ``smallest`` ≤ a, b ≤ ``largest``, in random order.

    Pairs are unordered: a + b and b + a are on the same side. ``train_rows`` keeps only so many questions to train
    on. Raises ``ValueError`` when the range is empty, the template lacks {a} or {b}, or nothing is left to train on.
    """
    if smallest > largest:
        raise ValueError(f"smallest ({smallest}) is larger than largest ({largest})")
    if "{a}" not in template or "{b}" not in template:
        raise ValueError("template must hold {a} and {b}")
    pairs = [(a, b) for a in range(smallest, largest + 1) for b in range(a, largest + 1)]
    if not 0 <= held_out_pairs < len(pairs):
        raise ValueError(f"held_out_pairs must be from 0 to {len(pairs) - 1}: the range has {len(pairs)} pairs")
    generator = random.Random(seed)
    generator.shuffle(pairs)
    held_out = _questions(pairs[:held_out_pairs], template, generator)
    train = _questions(pairs[held_out_pairs:], template, generator)
    if train_rows is not None and not 0 < train_rows <= len(train):
        raise ValueError(f"train_rows must be from 1 to {len(train)}: so many questions are left to train on")
    return Sums(train[:train_rows], held_out)


def to_jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    """One JSON object per line, UTF-8."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _questions(pairs: list[tuple[int, int]], template: str, generator: random.Random) -> list[dict[str, Any]]:
    ordered = [pair for a, b in pairs for pair in ({(a, b), (b, a)} if a != b else {(a, b)})]
    ordered.sort()  # a set has no order of its own
    generator.shuffle(ordered)
    return [{"question": template.format(a=a, b=b), "answer": str(a + b), "a": a, "b": b} for a, b in ordered]
