"""The course of every run that trains: measure, step after step, checkpoints between, measure, export."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from trainers.engine.checkpoint import Writer
from trainers.engine.optimizer import AdamParams
from trainers.errors import RunPaused, RunStopped
from trainers.recipes.checkpoints import Checkpointer
from trainers.recipes.hints import Watch
from trainers.recipes.meters import Meter
from trainers.recipes.progress import Progress
from trainers.recipes.resuming import RunState, load_run, rows_fingerprint, snapshot_run, task_fingerprint
from trainers.recipes.schedule import draw_rows, learning_rate, total_steps
from trainers.recipes.setup import Setup

Phase = Literal["before", "eval", "after"]


class Loop(ABC):
    """A recipe says what a step is, how to measure, and what it remembers from step to step; the rest is here.

    A run that goes on from a checkpoint is the run that never stopped: a step depends on the weights, the step's number
    and what the recipe remembers, and on nothing else.
    """

    first_phase = "training"

    def __init__(self, setup: Setup, *, keys: Sequence[str], measures: bool) -> None:
        """``keys`` name the rows in use; ``measures``: there is something to evaluate on."""
        self.setup, self.ctx, self.engine, self.adapter = setup, setup.ctx, setup.engine, setup.adapter
        self.rows = len(keys)
        self.steps = total_steps(self.ctx.spec.hyperparameters, self.rows)
        self.measures = measures
        evaluations = 2 + self._between(self.steps) if measures else 0
        self.progress = Progress(self.ctx, self.steps, {"step": self.steps, "evaluation": evaluations, "export": 1})
        self.engine.pulse.listener = self.progress.pulse
        self.checkpointer = Checkpointer(self.ctx, self.engine, self.adapter, setup.mtbf_s)
        self.meter = Meter(self.ctx, self.engine, self.adapter, self.progress)
        self.watch = Watch(self.ctx)
        self.cursor = 0
        self.before: dict[str, Any] | None = None
        self._train_s = 0.0
        self._done = 0
        self._marks = {"task": task_fingerprint(self.ctx.spec), "rows": rows_fingerprint(keys)}

    # What a recipe is.

    @abstractmethod
    def step(self, step: int) -> dict[str, float]:
        """One step, by its number from 1; returns its metrics."""

    @abstractmethod
    def measure(self, step: int, phase: Phase) -> dict[str, Any]:
        """Metrics on held-out rows (``eval/…``), and ``summary``: what the run's result says of them."""

    def memory(self) -> dict[str, Any]:
        """What the recipe must remember from one step to the next, as JSON."""
        return {}

    def remember(self, memory: dict[str, Any]) -> None:  # noqa: B027 # most recipes remember nothing
        """Take up what :meth:`memory` gave."""

    def snapshot_more(self) -> Writer | None:
        """Other trained parts of the recipe, of this moment, to be written into a checkpoint."""
        return None

    def load_more(self, folder: Path) -> None:  # noqa: B027
        """Read them back."""

    # How it runs.

    def run(self) -> dict[str, Any]:
        """Train to the end; returns the result of the run.

        Raises ``RunPaused`` when it was asked to pause: what it has done is then in a checkpoint.
        """
        try:
            return self._run()
        except RunStopped:
            raise  # nobody waits for what is still being written
        except BaseException:
            self.checkpointer.settle()
            raise

    def _run(self) -> dict[str, Any]:
        if self.setup.resume is not None:
            self._go_on(self.setup.resume)
        else:
            with self.progress.nothing_to_lose():
                self.before = self._measured(0, "before")
        self._pause_if_asked()
        for step in range(self._done + 1, self.steps + 1):
            begun = time.monotonic()
            with self.progress.stage("step", self.first_phase, step):
                values = self.step(step)
            self._train_s += time.monotonic() - begun
            self._done = step
            self.meter.emit(step, values)
            self.watch.stepped(step, values)
            if self.evaluation_due(step):
                self._measured(step, "eval")
            if step < self.steps:
                self.checkpointer.after_step(step, self._snapshot)
                self._pause_if_asked()
        after = self._measured(self.steps, "after")
        with self.progress.stage("export", "exporting", self.steps):
            self.checkpointer.final(self.steps)
        self.progress.finish()
        return {
            "before": self.before,
            "after": after,
            "steps": self.steps,
            "tokens": self.meter.tokens,
            "train_seconds": round(self._train_s, 3),
            "eval_prompts": self.held_out,
        }

    @property
    def held_out(self) -> int:
        """How many rows the run measures on."""
        return 0

    def evaluation_due(self, step: int) -> bool:
        """Whether an evaluation follows the step (the last one's does not count)."""
        every = self.ctx.spec.evaluation.every_steps
        return bool(self.measures and every and step % every == 0 and step < self.steps)

    def next_rows(self, count: int) -> list[int]:
        """Indices of the next rows of the data, in the order of this run's seed."""
        spec = self.ctx.spec
        rows = draw_rows(self.cursor, count, self.rows, seed=spec.seed, shuffle=spec.data.shuffle)
        self.cursor += count
        return rows

    def rate(self, step: int) -> float:
        return learning_rate(self.ctx.spec.hyperparameters, step, self.steps)

    def adam(self, step: int, rate: float | None = None) -> AdamParams:
        hyper = self.ctx.spec.hyperparameters
        rate = self.rate(step) if rate is None else rate
        return AdamParams(rate, hyper.beta1, hyper.beta2, hyper.eps, hyper.weight_decay, hyper.grad_clip_norm)

    def _measured(self, step: int, phase: Phase) -> dict[str, Any] | None:
        if not self.measures:
            return None
        values = self.measure(step, phase)
        summary: dict[str, Any] = values.pop("summary")
        self.meter.emit(step, values)
        self.watch.measured(step, values)
        return summary

    def _between(self, steps: int) -> int:
        """Evaluations after the steps 1 … ``steps`` - 1."""
        every = self.ctx.spec.evaluation.every_steps
        return max(0, (steps - 1) // every) if every else 0

    def _pause_if_asked(self) -> None:
        if self.ctx.pause_requested():
            self.checkpointer.now(self._done, self._snapshot)
            raise RunPaused

    def _snapshot(self) -> Writer:
        state = RunState(
            step=self._done,
            steps=self.steps,
            cursor=self.cursor,
            tokens=self.meter.tokens,
            active_s=self.progress.active_s,
            train_s=self._train_s,
            before=self.before,
            memory=self.memory(),
            hints=self.watch.memory(),
            **self._marks,
        )
        return snapshot_run(self.engine, self.adapter, state, self.snapshot_more())

    def _go_on(self, folder: Path) -> None:
        state = load_run(self.engine, self.adapter, folder, self._marks, self.load_more)
        self.checkpointer.stored = state.step
        self.cursor, self.before, self._train_s, self._done = state.cursor, state.before, state.train_s, state.step
        self.meter.tokens = state.tokens
        self.remember(state.memory)
        self.watch.remember(state.hints)
        evaluations = 1 + self._between(state.step + 1) if self.measures else 0
        self.progress.go_on(state.active_s, {"step": state.step, "evaluation": evaluations})
        self.ctx.emit(
            "log", step=state.step, level="info", text=f"Going on from the checkpoint of step {state.step:,}."
        )
