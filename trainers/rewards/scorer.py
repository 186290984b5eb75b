"""Scores batches of completions by a reward spec: reward = Σ weight · value, each value kept by name."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from trainers.errors import RewardError
from trainers.recipes.context import Score, ScoredInput
from trainers.rewards import components
from trainers.rewards.components import Bench, Unscored, shown
from trainers.rewards.sandbox import Sandbox
from trainers.rewards.spec import Exact, Numeric, RewardSpec

ACCURATE = 1.0 - 1e-9
TRY_SECONDS = 20.0


class Scorer:
    """A reward ready to use. Holds a sandbox worker from its first need of one until :meth:`close`."""

    def __init__(self, spec: RewardSpec, *, sandbox: Sandbox | None = None) -> None:
        self.spec = spec
        self._sandbox = sandbox or Sandbox()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sandbox.close()

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        """One score per row, in order; a row is accurate when the first component gives 1.

        Raises :class:`RewardError` naming component and completion when any value cannot be had.
        """
        bench, columns = Bench(self._sandbox), []
        for index, component in enumerate(self.spec.components):
            try:
                columns.append(components.values(component, rows, bench))
            except Unscored as failure:
                raise _reward_error(self.spec, index, rows, failure) from failure
        scores = []
        for row, values in enumerate(zip(*columns, strict=True)):
            reward = _total(self.spec, values)
            if not math.isfinite(reward):
                overflow = Unscored(row, "makes the weighted sum too large for a number", "Scale the values down.")
                raise _reward_error(self.spec, 0, rows, overflow)
            parts = dict(zip(self.spec.names, values, strict=True))
            scores.append(Score(reward=reward, parts=parts, accurate=values[0] >= ACCURATE))
        return scores


def needs_answer(spec: RewardSpec) -> bool:
    """Whether every row must have a reference answer (user functions may do without)."""
    return any(isinstance(component, Exact | Numeric) for component in spec.components)


def answer_problem(spec: RewardSpec, answer: str | None) -> str | None:
    """Why a row's answer does not suit the reward, as a sentence; None if it does. To be asked before a run."""
    for name, component in zip(spec.names, spec.components, strict=True):
        if problem := components.answer_problem(component, answer):
            return f"The reward component {name!r} cannot be computed: {problem}."
    return None


def try_reward(
    spec: RewardSpec, samples: Sequence[ScoredInput], *, seconds: float = TRY_SECONDS
) -> list[dict[str, Any]]:
    """Score samples one by one for a page, in at most about ``seconds`` altogether; nothing is raised.

    Each is ``{"total", "accurate", "parts": [{"name", "weight", "value", "error", "advice"}], "error", "printed"}``;
    ``total`` and ``accurate`` are None where a part failed, and ``error`` then says which and why.
    """
    deadline = time.monotonic() + seconds
    with Sandbox() as sandbox:
        return [_try_one(spec, sample, sandbox, deadline) for sample in samples]


def _try_one(spec: RewardSpec, sample: ScoredInput, sandbox: Sandbox, deadline: float) -> dict[str, Any]:
    parts, printed = [], []
    for name, component in zip(spec.names, spec.components, strict=True):
        bench = Bench(sandbox, deadline - time.monotonic())
        part: dict[str, Any] = {"name": name, "weight": component.weight, "value": None, "error": None, "advice": None}
        try:
            if bench.seconds <= 0:
                raise Unscored(None, "was not tried", "Try fewer samples.", "the time for all samples is used up")
            [part["value"]] = components.values(component, [sample], bench)
        except Unscored as failure:
            part["error"] = failure.sentence(name)
            part["advice"] = failure.advice
        parts.append(part)
        printed += bench.printed
    error = next((part["error"] for part in parts if part["error"]), None)
    total = None if error else _total(spec, [part["value"] for part in parts])
    if total is not None and not math.isfinite(total):
        error, total = "The weighted sum is too large to be a number.", None
    accurate = None if total is None else parts[0]["value"] >= ACCURATE
    return {"total": total, "accurate": accurate, "parts": parts, "error": error, "printed": "".join(printed)}


def _total(spec: RewardSpec, values: Sequence[float]) -> float:
    return math.fsum(component.weight * value for component, value in zip(spec.components, values, strict=True))


def _reward_error(spec: RewardSpec, index: int, rows: Sequence[ScoredInput], failure: Unscored) -> RewardError:
    where = ""
    if failure.row is not None:
        row = rows[failure.row]
        where = (
            f" for completion {failure.row + 1} of {len(rows)} "
            f"(prompt {shown(row.prompt)}, completion {shown(row.completion)})"
        )
    return RewardError(failure.sentence(spec.names[index], where), failure.advice, f"reward.components.{index}")
