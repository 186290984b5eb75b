"""Scores batches of completions by a reward spec: reward = Σ weight · value, each value kept by name."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainers.errors import RewardError
from trainers.recipes.context import Score, ScoredInput
from trainers.rewards import components
from trainers.rewards.bench import Bench, Workshop
from trainers.rewards.calls import JudgeCalls
from trainers.rewards.sandbox import Sandbox, SandboxError
from trainers.rewards.spec import Code, Math, Python, RewardSpec
from trainers.rewards.unscored import Unscored, shown

ACCURATE = 1.0 - 1e-9
TRY_SECONDS = 20.0
_FOREIGN = (Python, Code, Math)


class Scorer:
    """A reward ready to use. Holds sandbox workers and connections from its first need of them until :meth:`close`.

    ``secrets``: values of the secrets that ``spec.secrets`` names; ``cache_folder``: where replies of judges are kept.
    """

    def __init__(
        self,
        spec: RewardSpec,
        *,
        sandbox: Sandbox | None = None,
        secrets: Mapping[str, str] | None = None,
        cache_folder: Path | None = None,
        judges: JudgeCalls | None = None,
    ) -> None:
        self.spec = spec
        self._workshop = Workshop(sandbox)
        self._judges = judges or JudgeCalls(secrets=secrets, folder=cache_folder)

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._workshop.close()
        self._judges.close()

    def isolation_lacks(self) -> list[str]:
        """What this host does not give the sandbox, in sentences; nothing is tried for a reward that needs none."""
        if not any(isinstance(component, _FOREIGN) for component in self.spec.components):
            return []
        try:
            return list(self._workshop.sandbox("rewards").report()["lacks"])
        except SandboxError as error:
            return [str(error)]

    def metrics(self) -> dict[str, float]:
        """What scoring has cost so far (``judge/calls``, ``judge/cost`` ...); empty for a reward that asks nobody."""
        return self._judges.metrics()

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        """One score per row, in order; a row is accurate when the first component gives 1.

        Raises :class:`RewardError` naming component and completion when any value cannot be had.
        """
        bench, columns = Bench(self._workshop, self._judges), []
        for index, component in enumerate(self.spec.components):
            try:
                columns.append(components.values(component, rows, bench))
            except Unscored as failure:
                raise _reward_error(self.spec, index, rows, failure) from failure
        scores = []
        for row, values in enumerate(zip(*columns, strict=True)):
            reward = total(self.spec, values)
            if not math.isfinite(reward):
                overflow = Unscored(row, "makes the weighted sum too large for a number", "Scale the values down.")
                raise _reward_error(self.spec, 0, rows, overflow)
            parts = dict(zip(self.spec.names, values, strict=True))
            scores.append(Score(reward=reward, parts=parts, accurate=values[0] >= ACCURATE))
        return scores


def needs_answer(spec: RewardSpec) -> bool:
    """Whether every row must have a reference answer (user functions may do without)."""
    return any(components.needs_answer(component) for component in spec.components)


def row_problem(spec: RewardSpec, answer: str | None, row: Mapping[str, Any]) -> str | None:
    """Why a row does not suit the reward, as a sentence; None if it does. To be asked before a run."""
    for name, component in zip(spec.names, spec.components, strict=True):
        if problem := components.row_problem(component, answer, row):
            return f"The reward component {name!r} cannot be computed: {problem}."
    return None


def total(spec: RewardSpec, values: Sequence[float]) -> float:
    """Σ weight · value; where a gate stops the completion, what the first such gate says instead."""
    gate = _gate(spec, values)
    if gate is not None:
        return spec.components[gate].otherwise
    return math.fsum(component.weight * value for component, value in zip(spec.components, values, strict=True))


def try_reward(
    spec: RewardSpec,
    samples: Sequence[ScoredInput],
    *,
    seconds: float = TRY_SECONDS,
    secrets: Mapping[str, str] | None = None,
    judges: JudgeCalls | None = None,
) -> list[dict[str, Any]]:
    """Score samples one by one for a page, in at most about ``seconds`` altogether; nothing is raised.

    Each is ``{"total", "accurate", "gate", "parts": [{"name", "weight", "value", "error", "advice"}], "error",
    "printed", "notes"}``; ``total`` and ``accurate`` are None where a part failed, and ``error`` then says which and
    why. ``gate`` names the component that stopped the completion.
    """
    deadline = time.monotonic() + seconds
    workshop, calls = Workshop(), judges or JudgeCalls(secrets=secrets)
    try:
        return [_try_one(spec, sample, Bench(workshop, calls, trying=True), deadline) for sample in samples]
    finally:
        workshop.close()
        calls.close()


def _try_one(spec: RewardSpec, sample: ScoredInput, bench: Bench, deadline: float) -> dict[str, Any]:
    parts = []
    for name, component in zip(spec.names, spec.components, strict=True):
        bench.seconds = deadline - time.monotonic()
        part: dict[str, Any] = {"name": name, "weight": component.weight, "value": None, "error": None, "advice": None}
        try:
            if bench.seconds <= 0:
                raise Unscored(None, "was not tried", "Try fewer samples.", "the time for all samples is used up")
            [part["value"]] = components.values(component, [sample], bench)
        except Unscored as failure:
            part["error"] = failure.sentence(name)
            part["advice"] = failure.advice
        parts.append(part)
    error = next((part["error"] for part in parts if part["error"]), None)
    values = [part["value"] for part in parts]
    result = None if error else total(spec, values)
    if result is not None and not math.isfinite(result):
        error, result = "The weighted sum is too large to be a number.", None
    gate = None if result is None else _gate(spec, values)
    return {
        "total": result,
        "accurate": None if result is None else values[0] >= ACCURATE,
        "gate": None if gate is None else spec.names[gate],
        "parts": parts,
        "error": error,
        "printed": "".join(bench.printed),
        "notes": bench.notes,
    }


def _gate(spec: RewardSpec, values: Sequence[float]) -> int | None:
    """The number of the first component that stops the completion."""
    for number, (component, value) in enumerate(zip(spec.components, values, strict=True)):
        if component.at_least is not None and value < component.at_least:
            return number
    return None


def _reward_error(spec: RewardSpec, index: int, rows: Sequence[ScoredInput], failure: Unscored) -> RewardError:
    where = ""
    if failure.row is not None:
        row = rows[failure.row]
        where = (
            f" for completion {failure.row + 1} of {len(rows)} "
            f"(prompt {shown(row.prompt)}, completion {shown(row.completion)})"
        )
    return RewardError(failure.sentence(spec.names[index], where), failure.advice, f"reward.components.{index}")
