"""Where a run stands: phase, share of the whole, time left. Also the place where a run notices that it must stop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from trainers.errors import RunPaused, RunStopped
from trainers.recipes.context import RunContext

_EMIT_EVERY_S = 1.5
_RECENT = 5  # durations of a stage that the estimate looks back on

# How long stages last relative to each other, until they have been measured.
_GUESS = {"loading": 3.0, "step": 6.0, "evaluation": 8.0, "export": 4.0}


class Progress:
    """A run is a number of *stages* of a few kinds (``loading``, ``step``, ``evaluation``, ``export``).

    What is left is estimated from how long stages of each kind took lately. ``pulse`` fits the engine's listener.
    """

    def __init__(self, ctx: RunContext, total_steps: int, stages: Mapping[str, int]) -> None:
        self._ctx, self._total_steps = ctx, total_steps
        self._left = dict(stages)
        self._took: dict[str, deque[float]] = {kind: deque(maxlen=_RECENT) for kind in stages}
        self._begun = time.monotonic()
        self._before = 0.0
        self._told = 0.0
        self._fraction = 0.0
        self._kind, self._stage_begun, self._share = "loading", self._begun, 0.0
        self._may_pause = False
        self._phase, self._step, self._from, self._to = "loading", 0, 0.0, 1.0

    @property
    def active_s(self) -> float:
        """Seconds that the run has been active: this attempt's, and those before the checkpoint it went on from."""
        return self._before + time.monotonic() - self._begun

    def go_on(self, active_s: float, done: Mapping[str, int]) -> None:
        """The run goes on from a checkpoint: so many seconds and so many stages of each kind are behind it."""
        self._before = active_s
        for kind, count in done.items():
            self._left[kind] = max(0, self._left[kind] - count)

    @contextmanager
    def stage(self, kind: str, phase: str, step: int) -> Iterator[None]:
        """One stage; what happens inside is reported under ``phase`` until :meth:`phase` says otherwise."""
        self._kind, self._stage_begun, self._step = kind, time.monotonic(), step
        self.phase(phase, 0.0, 1.0)
        yield
        self._took[kind].append(time.monotonic() - self._stage_begun)
        self._left[kind] = max(0, self._left[kind] - 1)
        self._kind, self._share = "", 0.0

    def phase(self, name: str, start: float, stop: float) -> None:
        """The stage enters a phase that covers ``start`` to ``stop`` of it."""
        changed, self._phase, self._from, self._to = name != self._phase, name, start, stop
        self._share = start
        self.check()
        if changed:
            self._emit()

    def pulse(self, share: float) -> None:
        """The phase has come to this share of itself."""
        self._share = self._from + (self._to - self._from) * share
        self.check()
        if time.monotonic() - self._told >= _EMIT_EVERY_S:
            self._emit()

    @contextmanager
    def nothing_to_lose(self) -> Iterator[None]:
        """Within it a pause takes effect at once, without a checkpoint: it is done again from its beginning."""
        self._may_pause = True
        yield
        self._may_pause = False

    def check(self) -> None:
        """Raise :class:`RunStopped` if the run was asked to stop, :class:`RunPaused` if it can be paused right here."""
        if self._ctx.stop_requested():
            raise RunStopped
        if self._may_pause and self._ctx.pause_requested():
            raise RunPaused

    def finish(self) -> None:
        """Everything is done."""
        self._fraction = 1.0
        self._ctx.emit(
            "progress",
            step=self._total_steps,
            total_steps=self._total_steps,
            phase="exporting",
            fraction=1.0,
            eta_s=0.0,
        )

    def _emit(self) -> None:
        self._told = time.monotonic()
        left = self._seconds_left()
        fraction = self.active_s / (self.active_s + left) if left + self.active_s > 0 else 0.0
        self._fraction = max(self._fraction, min(fraction, 0.999))
        measured = bool(self._took.get("step")) or bool(self._took.get("evaluation"))
        self._ctx.emit(
            "progress",
            step=self._step,
            total_steps=self._total_steps,
            phase=self._phase,
            fraction=round(self._fraction, 4),
            eta_s=round(left, 1) if measured else None,
        )

    def _seconds_left(self) -> float:
        known = {kind: sum(took) / len(took) for kind, took in self._took.items() if took}
        pace = [known[kind] / _GUESS[kind] for kind in known if kind != "loading"]
        scale = sum(pace) / len(pace) if pace else 1.0
        expected = {kind: known.get(kind, _GUESS[kind] * scale) for kind in self._left}
        total = sum(expected[kind] * count for kind, count in self._left.items())
        if self._kind:
            spent = time.monotonic() - self._stage_begun
            whole = expected[self._kind] if self._share < 0.25 else spent / self._share
            total += max(whole - spent, 0.0) - expected[self._kind]
        return max(total, 0.0)
