"""The value of each kind of component for a batch of completions. A new kind is one more function here.

Each function returns one float per row or raises :class:`Unscored`, which names the row and what went wrong.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from trainers.recipes.context import ScoredInput
from trainers.rewards.numeric import Number, close, marked_answer, number_of
from trainers.rewards.sandbox import Outcome, Sandbox, SandboxError
from trainers.rewards.spec import AnyComponent, Component, Exact, Length, Numeric, Pattern, Python

PATTERN_SECONDS = 10.0
_NO_ANSWER = "Name the column that holds the answers, or use a reward that needs none."
_ONE_NUMBER = "`reward` is called once per completion and must return one plain number (int, float or bool)."


class Unscored(Exception):
    """A component that gives no value: for which row (by index; None: for all), why, and what to do about it.

    ``reason`` goes on where "The reward component 'x'" stops; ``detail`` follows it after a colon.
    """

    def __init__(self, row: int | None, reason: str, advice: str, detail: str = "") -> None:
        super().__init__(reason)
        self.row, self.reason, self.advice, self.detail = row, reason, advice, detail.rstrip(".")

    def sentence(self, name: str, place: str = "") -> str:
        return f"The reward component {name!r} {self.reason}{place}{': ' if self.detail else ''}{self.detail}."


@dataclass(slots=True)
class Bench:
    """What scoring may use: the sandbox, and a limit of seconds below the component's own."""

    sandbox: Sandbox
    seconds: float = math.inf
    printed: list[str] = field(default_factory=list)

    def run(self, task: str, payload: dict[str, Any], *, count: int, seconds: float, trusted: bool) -> Outcome:
        try:
            outcome = self.sandbox.run(task, payload, count=count, seconds=min(seconds, self.seconds), trusted=trusted)
        except SandboxError as error:
            advice = "Ask who runs this platform to look at the sandbox."
            raise Unscored(None, "cannot be computed", advice, str(error)) from error
        if outcome.printed:
            self.printed.append(outcome.printed)
        return outcome


def values(component: AnyComponent, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    """One finite value per row, in order. Raises :class:`Unscored`."""
    if not rows:
        return []
    found = _KINDS[type(component)](component, rows, bench)
    for index, value in enumerate(found):
        if not math.isfinite(value):
            raise Unscored(index, f"gave {value}, which is no finite number", "Return a finite number.")
    return found


def answer_problem(component: AnyComponent, answer: str | None) -> str | None:
    """Why this component cannot work with an answer, as part of a sentence; None if it can."""
    if not isinstance(component, Exact | Numeric):
        return None
    if answer is None or not answer.strip():
        return "the row has no answer"
    if isinstance(component, Numeric) and number_of(answer) is None:
        return f"the answer {shown(answer)} holds no number"
    return None


def shown(text: str, length: int = 60) -> str:
    """A text as part of a message: one line, quoted, cut."""
    text = " ".join(text.split())
    return repr(text if len(text) <= length else text[: length - 1] + "…")


def _answer(component: AnyComponent, rows: Sequence[ScoredInput], index: int) -> str:
    answer = rows[index].answer
    if problem := answer_problem(component, answer):
        raise Unscored(index, "cannot be computed", _NO_ANSWER, problem)
    assert answer is not None
    return answer


def _exact(component: Exact, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    found: list[str | None] = [row.completion for row in rows]
    if component.extract is not None:
        found = _matches(component.extract, "last", rows, bench)
    scores = []
    for index, text in enumerate(found):
        answer = _answer(component, rows, index)
        accepted = {_plain(wanted, component) for wanted in (answer, marked_answer(answer)) if wanted is not None}
        scores.append(1.0 if text is not None and _plain(text, component) in accepted else 0.0)
    return scores


def _plain(text: str, component: Exact) -> str:
    text = unicodedata.normalize("NFC", text).strip()
    return text.casefold() if component.ignore_case else text


def _numeric(component: Numeric, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    scores = []
    for index, row in enumerate(rows):
        wanted = number_of(_answer(component, rows, index))
        found = number_of(row.completion, component.which)
        assert isinstance(wanted, Number)
        scores.append(1.0 if found is not None and close(found, wanted, component.tolerance) else 0.0)
    return scores


def _pattern(component: Pattern, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    return _matches(component.pattern, "whole" if component.whole else "search", rows, bench)


def _matches(pattern: str, mode: str, rows: Sequence[ScoredInput], bench: Bench) -> list[Any]:
    """Patterns run in the sandbox: one that backtracks for ever can only be ended with its process."""
    payload = {"pattern": pattern, "mode": mode, "texts": [row.completion for row in rows]}
    outcome = bench.run("patterns", payload, count=len(rows), seconds=PATTERN_SECONDS, trusted=True)
    if outcome.failure is not None or len(outcome.messages) != len(rows):
        row = min(len(outcome.messages), len(rows) - 1)
        reason = f"came to no end with the pattern {shown(pattern)}"
        advice = "Simplify the pattern: nested repetitions such as (a+)+ take exponential time on some texts."
        raise Unscored(row, reason, advice, outcome.failure or "a result is missing")
    return [message["value"] for message in outcome.messages]


def _length(component: Length, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    return [_length_of(len(row.completion), component.minimum, component.maximum) for row in rows]


def _length_of(length: int, minimum: int, maximum: int) -> float:
    if length < minimum:
        return length / minimum
    return max(0.0, 1.0 - max(0, length - maximum) / maximum)


def _python(component: Python, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    payload = {"code": component.code, "samples": [[row.prompt, row.completion, row.answer, row.row] for row in rows]}
    outcome = bench.run("rewards", payload, count=len(rows), seconds=component.timeout_s, trusted=False)
    scores: list[float] = []
    for message in outcome.messages:
        error, value = message.get("error"), message.get("value")
        if isinstance(error, dict):
            _raise_error(error, len(scores))
        if message.get("i") != len(scores) or not isinstance(value, int | float):
            raise Unscored(None, "wrote to the sandbox's own channel", "Use print() for messages.")
        scores.append(float(value))
    if outcome.failure is not None:
        raise Unscored(min(len(scores), len(rows) - 1), "gave no value", outcome.advice, outcome.failure)
    if len(scores) != len(rows):
        reason = f"gave {len(scores)} values for {len(rows)} completions"
        advice = "Return a number for every completion; never end the process."
        raise Unscored(len(scores), reason, advice, "its process ended early")
    return scores


def _raise_error(error: dict[str, Any], row: int) -> NoReturn:
    kind, text = error.get("kind"), str(error.get("text"))
    if kind == "type":
        raise Unscored(row, f"returned {text}", _ONE_NUMBER)
    if kind == "memory":
        raise Unscored(row, "ran out of the sandbox's memory", "Keep less in memory at once.")
    if kind == "signature":
        raise Unscored(None, "cannot be called", "Define `def reward(prompt, completion, answer, row)`.", text)
    line = error.get("line")
    where = f" on line {line}" if isinstance(line, int) else ""
    advice = "Correct the function, or catch the case and return a number for it."
    raise Unscored(row, f"raised {error.get('type')}{where}", advice, text)


_KINDS: dict[type[Component], Callable[[Any, Sequence[ScoredInput], Bench], list[float]]] = {
    Exact: _exact,
    Numeric: _numeric,
    Pattern: _pattern,
    Length: _length,
    Python: _python,
}
