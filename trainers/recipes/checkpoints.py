"""When a checkpoint is due, and what it holds."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from trainers.engine.engine import Engine
from trainers.engine.export import export_adapter, export_merged
from trainers.engine.full import FullWeights
from trainers.recipes.context import RunContext

STATE = "state"


class Checkpointer:
    """Publishes what is trained: now and then with all it takes to go on (folder ``state``), at the end by itself."""

    def __init__(self, ctx: RunContext, engine: Engine, adapter: str) -> None:
        self.ctx, self.engine, self.adapter = ctx, engine, adapter
        self._last = time.monotonic()

    def after_step(self, step: int, save: Callable[[Path], None]) -> None:
        """Publish a checkpoint if one is due by steps or by minutes; ``save`` writes the run's state into a folder."""
        settings = self.ctx.spec.checkpointing
        if step % settings.every_steps == 0 or time.monotonic() - self._last >= 60 * settings.every_minutes:
            self._publish(step, f"step-{step:06d}", save)

    def final(self, step: int) -> None:
        """Publish the finished adapter."""
        self._publish(step, "final", None)

    def _publish(self, step: int, name: str, save: Callable[[Path], None] | None) -> None:
        folder = self.ctx.scratch / "checkpoints" / name
        shutil.rmtree(folder, ignore_errors=True)
        full = isinstance(self.engine.adapters[self.adapter], FullWeights)
        proved = self._export(folder, full=full, final=save is None)
        if save is not None:
            save(folder / STATE)
        published = self.ctx.publish_folder(folder, name)
        self.ctx.emit(
            "checkpoint",
            step=step,
            final=save is None,
            name=name,
            uri=published["uri"],
            files=published["files"],
            format="full" if full else "peft",
        )
        self.ctx.emit("log", step=step, level="info", text=f"Checkpoint {name} published; {proved}.")
        shutil.rmtree(folder, ignore_errors=True)
        self._last = time.monotonic()

    def _export(self, folder: Path, *, full: bool, final: bool) -> str:
        """Write what others can load; returns how it was proved. All weights are exported only at the end: the state
        of the run holds them already."""
        if full and not final:
            return "it holds the state of the run"
        if full:
            difference, loader = export_merged(self.engine, self.adapter, folder), "transformers"
        else:
            base = self.ctx.spec.model.base
            difference, loader = export_adapter(self.engine, self.adapter, folder, base_model=base), "peft"
        return f"loaded again by {loader}, its log-probabilities differ by at most {difference:.1e}"
