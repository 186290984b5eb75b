"""A run context that keeps its events in memory, and the rows and reward of small sums: for measuring and testing."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainers.recipes.context import Message, Score, ScoredInput
from trainers.spec import TaskSpec


@dataclass
class RecordingContext:
    """Implements ``RunContext``; published folders are copied below ``scratch/published``."""

    spec: TaskSpec
    scratch: Path
    stop: Callable[[], bool] = lambda: False
    pause: Callable[[], bool] = lambda: False
    on_event: Callable[[dict[str, Any]], None] | None = None
    cache_folder: Path | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    def emit(self, kind: str, step: int | None = None, **fields: Any) -> None:
        event = {"kind": kind, "step": step, **fields}
        self.events.append(event)
        if self.on_event:
            self.on_event(event)

    def stop_requested(self) -> bool:
        return self.stop()

    def pause_requested(self) -> bool:
        return self.pause()

    def publish_folder(self, local: Path, name: str) -> dict[str, Any]:
        target = self.scratch / "published" / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(local, target)
        files = [
            {
                "name": str(path.relative_to(target)),
                "size": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in sorted(target.rglob("*"))
            if path.is_file()
        ]
        return {"uri": target.as_uri(), "files": files}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    def values(self, key: str) -> list[float]:
        return [event["values"][key] for event in self.of("metric") if key in event["values"]]


@dataclass(frozen=True)
class SimpleRow:
    """Implements ``Row``."""

    prompt_messages: Sequence[Message]
    answer: str | None
    messages: Sequence[Message] | None = None
    row: Mapping[str, Any] = field(default_factory=dict)
    chosen: Sequence[Message] | None = None
    rejected: Sequence[Message] | None = None
    text: str | None = None

    @property
    def key(self) -> str:
        return hashlib.sha256(repr(self.prompt_messages).encode()).hexdigest()[:12]


def sums(low: int, high: int, held_out: float, seed: int = 0) -> tuple[list[SimpleRow], list[SimpleRow]]:
    """All sums of two operands in the range; no pair, in either order, is in both parts."""
    pairs = [(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]
    random.Random(seed).shuffle(pairs)
    cut = round(len(pairs) * held_out)

    def rows(part: list[tuple[int, int]]) -> list[SimpleRow]:
        both = sorted({order for a, b in part for order in ((a, b), (b, a))})
        return [_sum_row(a, b) for a, b in both]

    return rows(pairs[cut:]), rows(pairs[:cut])


def _sum_row(a: int, b: int) -> SimpleRow:
    question = {"role": "user", "content": f"What is {a} + {b}? Answer with the number only."}
    reply = {"role": "assistant", "content": str(a + b)}
    return SimpleRow([question], str(a + b), [question, reply], {"a": a, "b": b})


class LastNumberScorer:
    """1 when the last number of the completion is the answer, else 0."""

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        scores = []
        for row in rows:
            numbers = re.findall(r"-?\d+", row.completion)
            right = bool(numbers) and int(numbers[-1]) == int(row.answer or "")
            scores.append(Score(float(right), {"numeric": float(right)}, right))
        return scores
