"""Components whose work is done in the sandbox: patterns, functions of users, and tools that may run for ever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from trainers.recipes.context import ScoredInput
from trainers.rewards.bench import Bench
from trainers.rewards.numeric import marked_answer
from trainers.rewards.programs import program_of
from trainers.rewards.sandbox import Outcome
from trainers.rewards.spec import Math, Pattern, Python, Schema, Similarity
from trainers.rewards.unscored import Unscored, shown

READ_CHARACTERS = 10_000
# For patterns whose component sets no limit of its own.
PATTERN_SECONDS = 10.0
_ONE_NUMBER = "`reward` is called once per completion and must return one plain number (int, float or bool)."


def pattern(component: Pattern, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    texts = [row.completion for row in rows]
    return matches(component.pattern, "whole" if component.whole else "search", texts, component.timeout_s, bench)


def matches(pattern: str, mode: str, texts: Sequence[str], seconds: float, bench: Bench) -> list[Any]:
    """Patterns run in the sandbox: one that backtracks for ever can only be ended with its process."""
    payload = {"pattern": pattern, "mode": mode, "texts": texts}
    outcome = bench.run("patterns", payload, count=len(texts), seconds=seconds, trusted=True)
    if outcome.failure is not None or len(outcome.messages) != len(texts):
        reason = f"came to no end with the pattern {shown(pattern)}"
        advice = "Simplify the pattern: nested repetitions such as (a+)+ take exponential time on some texts."
        raise Unscored(_reached(outcome, len(texts)), reason, advice, outcome.failure or "a result is missing")
    return [message["value"] for message in outcome.messages]


def equivalence(component: Math, rows: Sequence[ScoredInput], answers: Sequence[str], bench: Bench) -> list[float]:
    """Evaluates what the model wrote; where that comes to no end, crashes or fills the memory, it counts as wrong."""
    samples = [
        [marked_answer(answer) or answer.strip(), _readable(row.completion)]
        for row, answer in zip(rows, answers, strict=True)
    ]
    values: list[float] = []
    while len(values) < len(samples):
        begin = len(values)
        rest = samples[begin:]
        payload = {"samples": rest}
        outcome = bench.run(
            "equivalence", payload, count=len(rest), seconds=component.timeout_s, trusted=False, each=True
        )
        for message in outcome.messages:
            if message.get("unreadable"):
                detail = f"the answer {shown(rest[len(values) - begin][0])} is no mathematical expression"
                advice = "Write answers as numbers, LaTeX or plain expressions, or use another kind of reward."
                raise Unscored(len(values), "cannot be computed", advice, detail)
            value = message.get("value")
            if message.get("i") != len(values) - begin or value not in (0, 1):
                break
            values.append(float(value))
        if len(values) < len(samples) and (outcome.failure is not None or len(values) == begin):
            values.append(0.0)
            if bench.trying:
                bench.printed.append(f"{outcome.failure or 'It cannot be evaluated'}; it counts as wrong.\n")
    return values


def _readable(completion: str) -> str:
    marked = marked_answer(completion)
    return f"\\boxed{{{marked}}}" if marked is not None else completion[-READ_CHARACTERS:]


def schema(component: Schema, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    samples = []
    for index, row in enumerate(rows):
        text = row.completion if component.strict else json_in(row.completion)
        samples.append([_schema_of(component, row, index), text])
    payload = {"samples": samples}
    outcome = bench.run("schemas", payload, count=len(rows), seconds=component.timeout_s, trusted=True)
    values: list[float] = []
    for message in outcome.messages:
        if "schema" in message:
            advice = "Correct the schema; it may only refer to parts of itself."
            raise Unscored(len(values), "cannot be computed", advice, f"the schema is broken: {message['schema']}")
        values.append(1.0 if message.get("fits") is True else component.partial if message.get("parsed") else 0.0)
    _must_be_whole(outcome, len(rows), "Simplify the schema's patterns, or raise `timeout_s`.")
    return values


def _schema_of(component: Schema, row: ScoredInput, index: int) -> Any:
    if component.column is None:
        return component.definition
    value = row.row.get(component.column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict | bool):
        advice = "Write a JSON Schema into that column, or give one schema for all rows."
        raise Unscored(index, "cannot be computed", advice, f"column {component.column!r} holds no schema")
    return value


def json_in(completion: str) -> str | None:
    """The JSON of a completion: all of it, its last code block, or the first object or list that stands in it."""
    for text in (completion, program_of(completion)):
        if _is_json(text):
            return text
    decoder = json.JSONDecoder()
    start = min((at for at in (completion.find("{"), completion.find("[")) if at >= 0), default=-1)
    if start < 0:
        return None
    try:
        _, end = decoder.raw_decode(completion, start)
    except (ValueError, RecursionError):
        return None
    return completion[start:end]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def similarity(component: Similarity, rows: Sequence[ScoredInput], answers: Sequence[str], bench: Bench) -> list[float]:
    pairs = [[row.completion.strip(), answer.strip()] for row, answer in zip(rows, answers, strict=True)]
    if component.ignore_case:
        pairs = [[text.casefold() for text in pair] for pair in pairs]
    payload = {"method": component.method, "samples": pairs}
    outcome = bench.run("similarity", payload, count=len(rows), seconds=component.timeout_s, trusted=True)
    _must_be_whole(outcome, len(rows), "Use shorter texts or another method, or raise `timeout_s`.")
    return [float(message["value"]) for message in outcome.messages]


def _must_be_whole(outcome: Outcome, count: int, advice: str) -> None:
    if outcome.failure is not None or len(outcome.messages) != count:
        row = _reached(outcome, count)
        raise Unscored(row, "gave no value", advice, outcome.failure or "a result is missing")


def _reached(outcome: Outcome, count: int) -> int:
    return min(len(outcome.messages), count - 1)


def python(component: Python, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
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
        raise Unscored(_reached(outcome, len(rows)), "gave no value", outcome.advice, outcome.failure)
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
