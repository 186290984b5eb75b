"""Mathematical equivalence by math-verify, which evaluates what the model wrote: so it happens inside the walls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

Emit = Callable[[dict[str, Any]], None]

logging.disable(logging.CRITICAL)
_CONFIGS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def _parsed(text: str) -> list[Any]:
    found: list[Any] = parse(text, _CONFIGS, parsing_timeout=None)
    return found


def equivalence(payload: dict[str, Any], emit: Emit) -> None:
    """``{samples: [[answer, text], ...]}`` → ``{i, value}`` each, or ``{i, unreadable: true}`` for an answer.

    ``text`` is where the result is looked for: LaTeX (the last ``\\boxed`` first) or a plain expression.
    """
    golds: dict[str, list[Any]] = {}
    for index, (answer, text) in enumerate(payload["samples"]):
        gold = golds.get(answer)
        if gold is None:
            gold = golds[answer] = _parsed(f"\\boxed{{{answer}}}")
        if not gold:
            emit({"i": index, "unreadable": True})
            return
        right = bool(verify(gold, _parsed(text), timeout_seconds=None))
        emit({"i": index, "value": 1.0 if right else 0.0})


# Compiles the patterns and loads what is loaded late, once, for all tasks to come.
for _text in ("$\\frac{1}{2}$", "\\boxed{x^2+1}", "(1, 2)", "0.5"):
    verify(_parsed("\\boxed{1/2}"), _parsed(_text), timeout_seconds=None)

TASKS: dict[str, Callable[[dict[str, Any], Emit], None]] = {"equivalence": equivalence}
