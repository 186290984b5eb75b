"""The reward of another model's opinion: what it is asked, and how its score is read out of the reply."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainers.recipes.context import ScoredInput
from trainers.rewards.bench import Bench
from trainers.rewards.calls import JudgeFailed
from trainers.rewards.sandboxed import PATTERN_SECONDS, json_in, matches
from trainers.rewards.spec import Judge
from trainers.rewards.unscored import Unscored, shown

_FIELD = re.compile(r"\{(prompt|completion|answer|row\.([^{}\n]{1,200}))\}")
_NUMBER = re.compile(r"(?<![\w.])(-?\d{1,15}(?:\.\d{1,15})?)(?:\s{0,3}/\s{0,3}(\d{1,15}(?:\.\d{1,15})?))?(?![\w])")


def judge(component: Judge, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    """The values of a batch; what is asked twice is sent once. Raises :class:`Unscored`."""
    asked = [messages(component, row) for row in rows]
    keys = [json.dumps(chat) for chat in asked]
    places = {key: index for index, key in reversed(list(enumerate(keys)))}
    deadline = time.monotonic() + bench.seconds if math.isfinite(bench.seconds) else math.inf
    first = list(places.values())
    with ThreadPoolExecutor(component.concurrency, thread_name_prefix="judge") as pool:
        waiting = {index: pool.submit(bench.judges.ask, component, asked[index], deadline) for index in first}
        replies: dict[str, str] = {}
        try:
            for index, future in waiting.items():
                replies[keys[index]] = future.result()
        except JudgeFailed as failure:
            pool.shutdown(wait=True, cancel_futures=True)
            raise Unscored(index, failure.reason, failure.advice, failure.detail) from failure
    if bench.trying:
        bench.printed += [f"{reply}\n" for reply in replies.values()]
    texts = [replies[key] for key in keys]
    return [
        _value(component, score, text, index) for index, (score, text) in enumerate(_scores(component, texts, bench))
    ]


def messages(component: Judge, row: ScoredInput) -> list[dict[str, str]]:
    """The chat to send. What the model wrote is put in as it is, and never read as a part of the template."""

    def filled(match: re.Match[str]) -> str:
        if match[1] == "prompt":
            return row.prompt
        if match[1] == "completion":
            return row.completion
        if match[1] == "answer":
            return row.answer or ""
        value = row.row.get(match[2])
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

    chat = [{"role": "user", "content": _FIELD.sub(filled, component.prompt)}]
    return [{"role": "system", "content": component.system}, *chat] if component.system else chat


def row_problem(component: Judge, row: Mapping[str, Any]) -> str | None:
    """The column that the prompt names and the row lacks, as part of a sentence."""
    names = (match[2] for match in _FIELD.finditer(component.prompt) if match[2])
    missing = next((name for name in names if name not in row), None)
    return None if missing is None else f"the row has no column {missing!r}"


def _scores(component: Judge, texts: Sequence[str], bench: Bench) -> list[tuple[float | None, str]]:
    if component.read == "pattern":
        assert component.pattern is not None
        found = matches(component.pattern, "last", texts, PATTERN_SECONDS, bench)
        return list(zip([_as_number(text) for text in found], texts, strict=True))
    read = _last_number if component.read == "last_number" else _score_of_json
    return [(read(component, text), text) for text in texts]


def _last_number(component: Judge, text: str) -> float | None:
    """The last number; of ``8/10`` the 8, where 10 is the highest score."""
    match = next(reversed(list(_NUMBER.finditer(text))), None)
    if match is None or (match[2] is not None and float(match[2]) != component.highest):
        return None
    return float(match[1])


def _score_of_json(component: Judge, text: str) -> float | None:
    found = json_in(text)
    value = json.loads(found) if found is not None else None
    score = value.get("score") if isinstance(value, dict) else None
    return float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None


def _as_number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _value(component: Judge, score: float | None, text: str, index: int) -> float:
    low, high = component.lowest, component.highest
    if score is not None and low <= score <= high:
        return (score - low) / (high - low)
    if component.unreadable is not None:
        return component.unreadable
    reason = f"got a reply without a score from {low:g} to {high:g}"
    advice = "Ask for the score alone in the prompt, or set `unreadable` to the value of such replies."
    raise Unscored(index, reason, advice, shown(text, 200))
