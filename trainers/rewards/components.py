"""The value of each kind of component for a batch of completions. A new kind is one more function in the table below.

Each function returns one float per row or raises :class:`Unscored`, which names the row and what went wrong.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainers.recipes.context import ScoredInput
from trainers.rewards import judging, programs, sandboxed, shaping
from trainers.rewards.bench import Bench
from trainers.rewards.numeric import Number, close, marked_answer, number_of
from trainers.rewards.sandboxed import PATTERN_SECONDS
from trainers.rewards.spec import (
    AnyComponent,
    Code,
    Component,
    Exact,
    Judge,
    Length,
    LengthTarget,
    Math,
    Numeric,
    Overlong,
    Pattern,
    Python,
    Repetition,
    Schema,
    Similarity,
    Tags,
)
from trainers.rewards.unscored import Unscored, shown

_NO_ANSWER = "Name the column that holds the answers, or use a reward that needs none."
_COMPARE = (Exact, Numeric, Math, Similarity)

Values = Callable[[Any, Sequence[ScoredInput], Bench], list[float]]


def values(component: AnyComponent, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    """One finite value per row, in order. Raises :class:`Unscored`."""
    if not rows:
        return []
    found = _KINDS[type(component)](component, rows, bench)
    if len(found) != len(rows):
        reason = f"gave {len(found)} values for {len(rows)} completions"
        raise Unscored(None, reason, "Return one number for every completion.")
    for index, value in enumerate(found):
        if not math.isfinite(value):
            raise Unscored(index, f"gave {value}, which is no finite number", "Return a finite number.")
    return found


def needs_answer(component: AnyComponent) -> bool:
    """Whether every row must have a reference answer."""
    return isinstance(component, _COMPARE) or (isinstance(component, Judge) and "{answer}" in component.prompt)


def row_problem(component: AnyComponent, answer: str | None, row: Mapping[str, Any]) -> str | None:
    """Why this component cannot work with a row, as part of a sentence; None if it can."""
    if needs_answer(component) and (answer is None or not answer.strip()):
        return "the row has no answer"
    if isinstance(component, Numeric) and number_of(answer or "") is None:
        return f"the answer {shown(answer or '')} holds no number"
    if isinstance(component, Code):
        try:
            programs.tests_of(component, row)
        except programs.NoTests as error:
            return str(error)
    if isinstance(component, Schema) and component.column is not None and component.column not in row:
        return f"the row has no column {component.column!r}"
    if isinstance(component, Judge):
        return judging.row_problem(component, row)
    return None


def _answers(component: AnyComponent, rows: Sequence[ScoredInput]) -> list[str]:
    for index, row in enumerate(rows):
        if problem := row_problem(component, row.answer, row.row):
            raise Unscored(index, "cannot be computed", _NO_ANSWER, problem)
    return [row.answer or "" for row in rows]


def _exact(component: Exact, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    found: list[str | None] = [row.completion for row in rows]
    if component.extract is not None:
        texts = [row.completion for row in rows]
        found = sandboxed.matches(component.extract, "last", texts, PATTERN_SECONDS, bench)
    scores = []
    for text, answer in zip(found, _answers(component, rows), strict=True):
        accepted = {_plain(wanted, component) for wanted in (answer, marked_answer(answer)) if wanted is not None}
        scores.append(1.0 if text is not None and _plain(text, component) in accepted else 0.0)
    return scores


def _plain(text: str, component: Exact) -> str:
    text = unicodedata.normalize("NFC", text).strip()
    return text.casefold() if component.ignore_case else text


def _numeric(component: Numeric, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    scores = []
    for row, answer in zip(rows, _answers(component, rows), strict=True):
        wanted = number_of(answer)
        found = number_of(row.completion, component.which)
        assert isinstance(wanted, Number)
        scores.append(1.0 if found is not None and close(found, wanted, component.tolerance) else 0.0)
    return scores


def _math(component: Math, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    return sandboxed.equivalence(component, rows, _answers(component, rows), bench)


def _similarity(component: Similarity, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    return sandboxed.similarity(component, rows, _answers(component, rows), bench)


_KINDS: dict[type[Component], Values] = {
    Exact: _exact,
    Numeric: _numeric,
    Math: _math,
    Pattern: sandboxed.pattern,
    Schema: sandboxed.schema,
    Similarity: _similarity,
    Code: programs.code,
    Tags: shaping.tags,
    Length: shaping.length,
    LengthTarget: shaping.length_target,
    Overlong: shaping.overlong,
    Repetition: shaping.repetition,
    Judge: judging.judge,
    Python: sandboxed.python,
}
