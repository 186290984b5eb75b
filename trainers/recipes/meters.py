"""Putting figures into the journal."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping

import psutil
import torch

from trainers.engine.engine import Engine
from trainers.recipes.context import RunContext
from trainers.recipes.flops import FlopCounter, peak_flops
from trainers.recipes.progress import Progress

_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


class Meter:
    """Emits ``metric`` events and keeps the count of ``tokens`` trained and sampled so far."""

    def __init__(self, ctx: RunContext, engine: Engine, adapter: str, progress: Progress) -> None:
        self._ctx, self._engine, self._progress, self._process = ctx, engine, progress, psutil.Process()
        self.flops = FlopCounter(engine, adapter)
        self.tokens = 0

    def emit(self, step: int, values: Mapping[str, float]) -> None:
        """One event; the memory of this process and its use of the device are added to those of a step."""
        values = {name: float(value) for name, value in values.items()}
        if (seconds := values.get("system/step_s")) is not None:
            values |= self._memory()
            values["system/mfu"] = self.flops.take() / max(seconds, 1e-9) / self._peak()
        self._ctx.emit(
            "metric", step=step, values=values, tokens=self.tokens, active_s=round(self._progress.active_s, 3)
        )

    def _peak(self) -> float:
        return peak_flops(self._engine.device.type, self._engine.dtype, self._engine.threads)

    def _memory(self) -> dict[str, float]:
        now = self._process.memory_info().rss
        # The kernel adds up its high-water mark only now and then, so it may stand below what is in use.
        peak = max(now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES)
        values = {"system/memory_gb": now / 1e9, "system/memory_peak_gb": peak / 1e9}
        if self._engine.device.type == "cuda":
            values["system/gpu_memory_peak_gb"] = torch.cuda.max_memory_allocated(self._engine.device) / 1e9
        return values
