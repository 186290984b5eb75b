"""Likeness of two texts by rapidfuzz. Long texts take long, so it happens where it can be ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

Emit = Callable[[dict[str, Any]], None]

_METHODS: dict[str, Callable[[str, str], float]] = {
    "ratio": lambda one, other: fuzz.ratio(one, other) / 100,
    "partial": lambda one, other: fuzz.partial_ratio(one, other) / 100,
    "token_sort": lambda one, other: fuzz.token_sort_ratio(one, other) / 100,
    "levenshtein": lambda one, other: Levenshtein.normalized_similarity(one, other),
}


def similarity(payload: dict[str, Any], emit: Emit) -> None:
    """``{method, samples: [[text, answer], ...]}`` → ``{i, value}`` from 0 to 1 each."""
    method = _METHODS[payload["method"]]
    for index, (text, answer) in enumerate(payload["samples"]):
        emit({"i": index, "value": float(method(text, answer))})


TASKS: dict[str, Callable[[dict[str, Any], Emit], None]] = {"similarity": similarity}
