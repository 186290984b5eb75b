"""A sweep: one task tried with several values of some of its fields, as a family of tasks with one budget.

``expand`` is a pure function from the description to the task specs, so a sweep can be shown, priced and repeated.
Three methods: ``grid`` (every combination), ``random`` (so many draws; Bergstra & Bengio 2012, JMLR 13) and ``halving``
(successive halving, Jamieson & Talwalkar 2016, arXiv:1502.07943: many short runs, of which the best 1/η run again, η
times as long).
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from trainers.spec import Budget, FieldError, Section, SpecError, TaskSpec, describe_error, parse_spec

MOST_MEMBERS = 256
MOST_FIELDS = 8
# Fields that would make members incomparable, or that the sweep sets itself.
NOT_SWEPT = ("name", "version", "recipe", "data.source", "evaluation", "budget", "resources")


class Choice(Section):
    """What a field may become: one of some ``values``, or a number between two bounds."""

    values: list[Any] | None = Field(None, min_length=1, max_length=64, description="The values to try.")
    minimum: float | None = Field(None, description="Least number of a range, for random draws.")
    maximum: float | None = Field(None, description="Greatest number of a range.")
    log: bool = Field(False, description="Draw evenly on a logarithmic scale; for learning rates and the like.")
    whole: bool = Field(False, description="Draw whole numbers.")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Choice:
        low, high = self.minimum, self.maximum
        if self.values is not None:
            if low is not None or high is not None:
                raise ValueError("give either values or a range (minimum and maximum)")
            return self
        if low is None or high is None:
            raise ValueError("give values, or a range (minimum and maximum)")
        if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
            raise ValueError("maximum must be above minimum, both finite")
        if self.log and low <= 0:
            raise ValueError("minimum must be above 0 on a logarithmic scale")
        return self

    def draw(self, source: random.Random) -> Any:
        """One of the values, or a number of the range as a person would write it."""
        if self.values is not None:
            return source.choice(self.values)
        low, high = float(self.minimum or 0), float(self.maximum or 0)
        value = math.exp(source.uniform(math.log(low), math.log(high))) if self.log else source.uniform(low, high)
        value = min(max(float(f"{value:.4g}"), low), high)
        return round(value) if self.whole else value


class Sweep(Section):
    """What to vary, how, and what decides."""

    task: dict[str, Any] = Field(description="The task that all members have in common.")
    method: Literal["grid", "random", "halving"] = "grid"
    fields: dict[str, Choice] = Field(
        min_length=1, max_length=MOST_FIELDS, description="Dotted path of the task spec → values, or a range."
    )
    members: int = Field(8, ge=2, le=MOST_MEMBERS, description="How many are drawn (random, halving).")
    eta: int = Field(3, ge=2, le=10, description="halving: one in so many goes on, with so many times the steps.")
    first_steps: int = Field(10, ge=1, description="halving: steps of the first rung.")
    metric: str = Field("eval/reward", max_length=200, description="What is compared, at the end of each member.")
    higher_is_better: bool = True
    budget: Budget = Field(default_factory=Budget, description="Of all members together.")
    seed: int = Field(0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _fits_together(self) -> Sweep:
        for path, choice in self.fields.items():
            if any(path == fixed or path.startswith(f"{fixed}.") for fixed in NOT_SWEPT):
                raise FieldError(f"fields.{path}", "cannot be varied: all members must have it in common")
            if self.method == "halving" and path == "hyperparameters.steps":
                raise FieldError(f"fields.{path}", "is set by the rungs of halving; leave it out")
            if self.method == "grid" and choice.values is None:
                raise FieldError(f"fields.{path}", "a grid needs values, not a range; list them, or draw at random")
        if self.method == "grid" and (count := self._combinations()) > MOST_MEMBERS:
            raise FieldError("fields", f"make {count:,} combinations; at most {MOST_MEMBERS} can run")
        return self

    def _combinations(self) -> int:
        return math.prod(len(choice.values or ()) for choice in self.fields.values())


def parse_sweep(value: Any) -> Sweep:
    """Check a JSON-like value. Raises :class:`SpecError` with the path of every field that is wrong."""
    try:
        return Sweep.model_validate(value)
    except ValidationError as error:
        raise SpecError([describe_error(item) for item in error.errors()]) from error


def expand(sweep: Sweep) -> list[TaskSpec]:
    """The members, each a whole task named after its values; equal members are made once.

    For ``halving`` these are the members of the first rung. The budget is divided evenly over all runs that the sweep
    will make, so that together they cannot exceed it. Raises :class:`SpecError` for a member that is no task, with the
    path of the field in it.
    """
    steps = sweep.first_steps if sweep.method == "halving" else None
    share = _share(sweep.budget, _runs(sweep))
    return [_member(sweep, values, share, steps) for values in _points(sweep)]


def next_rung(sweep: Sweep, members: Sequence[TaskSpec], results: Sequence[float | None]) -> list[TaskSpec]:
    """Successive halving: the best 1/η of a rung, with η times the steps; empty when one member is left.

    ``results[i]`` is the metric of ``members[i]``, None for one that failed and does not go on. Ties go to the earlier.
    """
    if len(members) != len(results):
        raise ValueError("every member of the rung needs a result, or None")
    if len(members) <= 1:
        return []
    known = [i for i, result in enumerate(results) if result is not None and math.isfinite(result)]
    sign = -1.0 if sweep.higher_is_better else 1.0
    best = sorted(known, key=lambda i: (sign * float(results[i] or 0.0), i))[: max(1, len(members) // sweep.eta)]
    return [_with_steps(members[i], (members[i].hyperparameters.steps or 1) * sweep.eta) for i in sorted(best)]


def rungs(sweep: Sweep) -> list[tuple[int, int]]:
    """(members, steps) of each rung of successive halving."""
    count, steps, found = len(_points(sweep)), sweep.first_steps, []
    while count:
        found.append((count, steps))
        if count == 1:
            break
        count, steps = max(1, count // sweep.eta), steps * sweep.eta
    return found


def _points(sweep: Sweep) -> list[dict[str, Any]]:
    """The combinations of values to try, in order, each once."""
    if sweep.method == "grid":
        lists = [choice.values or [] for choice in sweep.fields.values()]
        points = [dict(zip(sweep.fields, values, strict=True)) for values in itertools.product(*lists)]
    else:
        source = random.Random(sweep.seed)
        points = [{path: choice.draw(source) for path, choice in sweep.fields.items()} for _ in range(sweep.members)]
    return [point for index, point in enumerate(points) if point not in points[:index]]


def _runs(sweep: Sweep) -> int:
    return sum(count for count, _ in rungs(sweep)) if sweep.method == "halving" else len(_points(sweep))


def _share(budget: Budget, runs: int) -> dict[str, Any]:
    share: dict[str, Any] = {}
    if budget.amount is not None:
        cents = Decimal("0.000001")
        share["amount"] = max(cents, (budget.amount / runs).quantize(cents, rounding="ROUND_DOWN"))
    if budget.minutes is not None:
        share["minutes"] = budget.minutes / runs
    return share


def _member(sweep: Sweep, values: Mapping[str, Any], share: Mapping[str, Any], steps: int | None) -> TaskSpec:
    task = copy.deepcopy(sweep.task)
    for path, value in values.items():
        _put(task, path, value)
    if steps is not None:
        _put(task, "hyperparameters.steps", steps)
    if share:
        task["budget"] = dict(share)
    said = ", ".join(f"{path.rpartition('.')[2]} {_short(value)}" for path, value in values.items())
    task["name"] = f"{task.get('name') or 'sweep'} · {said}"[:200]
    return parse_spec(task)


def _put(task: dict[str, Any], path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        inner = task.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise SpecError([(f"fields.{path}", "there is no such field")])
        task = inner
    task[name] = value


def _with_steps(task: TaskSpec, steps: int) -> TaskSpec:
    return task.model_copy(update={"hyperparameters": task.hyperparameters.model_copy(update={"steps": steps})})


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
