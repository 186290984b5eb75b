"""Putting figures into the journal."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

from trainers.recipes.context import RunContext
from trainers.recipes.progress import Progress


class Meter:
    """Emits ``metric`` events and keeps the count of ``tokens`` trained and sampled so far."""

    def __init__(self, ctx: RunContext, progress: Progress) -> None:
        self._ctx, self._progress, self._process = ctx, progress, psutil.Process()
        self.tokens = 0

    def emit(self, step: int, values: Mapping[str, float]) -> None:
        """One event; the memory of this process is added to those that describe the system."""
        values = {name: float(value) for name, value in values.items()}
        if "system/step_s" in values:
            values["system/memory_gb"] = self._process.memory_info().rss / 1e9
        self._ctx.emit(
            "metric", step=step, values=values, tokens=self.tokens, active_s=round(self._progress.active_s, 3)
        )
