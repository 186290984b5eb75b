"""What a recipe is given to work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainers.engine.engine import Engine
from trainers.recipes.context import Row, RunContext, Scorer
from trainers.recipes.interval import USUAL_MTBF_S


@dataclass(frozen=True)
class Teacher:
    """A model to learn from: an engine with the student's vocabulary, and which of its adapters (None: none)."""

    engine: Engine
    adapter: str | None = None


@dataclass(frozen=True)
class Setup:
    """``adapter`` is trained. ``reference`` is the adapter that training started from; None is the bare base model.

    ``resume`` is the folder of a checkpoint (:mod:`trainers.recipes.resuming`) to go on from.
    ``mtbf_s``: seconds that pass on average until a machine like this one fails.
    """

    ctx: RunContext
    engine: Engine
    adapter: str
    train_rows: Sequence[Row] = field(default_factory=tuple)
    eval_rows: Sequence[Row] = field(default_factory=tuple)
    scorer: Scorer | None = None
    reference: str | None = None
    teacher: Teacher | None = None
    resume: Path | None = None
    mtbf_s: float = USUAL_MTBF_S
