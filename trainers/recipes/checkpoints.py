"""When a checkpoint is due, and what it holds.

Between steps training stops only to copy its state into the CPU's memory. A thread writes the files and stores them;
one checkpoint at a time is on its way, and what goes wrong there is raised in the run at the next step.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from trainers.engine.checkpoint import Writer
from trainers.engine.engine import Engine
from trainers.engine.export import export_adapter, export_merged, snapshot_adapter
from trainers.engine.full import FullWeights
from trainers.errors import RunStopped
from trainers.recipes.context import RunContext
from trainers.recipes.interval import due_after_s

STATE = "state"
# A checkpoint that is due waits this long for the one before it; then it is made after a later step.
PATIENCE_S = 1.0


class Checkpointer:
    """Publishes what is trained: now and then with all it takes to go on (folder ``state``), at the end by itself.

    ``stored`` is the step of the newest one that is in storage; 0 as long as there is none.
    """

    def __init__(self, ctx: RunContext, engine: Engine, adapter: str, mtbf_s: float) -> None:
        self.ctx, self.engine, self.adapter, self.mtbf_s = ctx, engine, adapter, mtbf_s
        self.stored = 0
        self._cost_s: float | None = None
        self._last = time.monotonic()
        self._overdue = False
        self._writing: threading.Thread | None = None
        self._error: BaseException | None = None

    def after_step(self, step: int, snapshot: Callable[[], Writer]) -> None:
        """Begin a checkpoint if one is due by steps or by time. Raises what the one before it has failed with."""
        settings = self.ctx.spec.checkpointing
        longest = due_after_s(60 * settings.every_minutes, self._cost_s, self.mtbf_s)
        late = self._overdue
        self._overdue |= step % settings.every_steps == 0 or time.monotonic() - self._last >= longest
        if self._overdue and self._wait(0.0 if late else PATIENCE_S):
            self._begin(step, snapshot)

    def now(self, step: int, snapshot: Callable[[], Writer]) -> None:
        """Have a checkpoint of this step in storage, and return when it is."""
        self._wait(None)
        if step > self.stored:
            self._begin(step, snapshot)
            self._wait(None)

    def final(self, step: int) -> None:
        """Publish the finished adapter, or the finished weights."""
        self._wait(None)
        folder = self._folder("final")
        full = isinstance(self.engine.adapters[self.adapter], FullWeights)
        if full:
            difference, loader = export_merged(self.engine, self.adapter, folder), "transformers"
        else:
            base = self.ctx.spec.model.base
            difference, loader = export_adapter(self.engine, self.adapter, folder, base_model=base), "peft"
        proved = f"loaded again by {loader}, its log-probabilities differ by at most {difference:.1e}"
        self._publish(step, "final", folder, time.monotonic(), proved)

    def settle(self) -> None:
        """Let the checkpoint that is on its way arrive, whatever ends the run; its own failure is not told any more."""
        if self._writing is not None:
            self._writing.join()

    def _begin(self, step: int, snapshot: Callable[[], Writer]) -> None:
        taken = time.monotonic()
        writers = [(snapshot(), STATE)]
        if not isinstance(self.engine.adapters[self.adapter], FullWeights):
            # Others can load it; all weights are exported only at the end, since the state holds them already.
            writers.append((snapshot_adapter(self.engine, self.adapter, base_model=self.ctx.spec.model.base), ""))
        stood_s = time.monotonic() - taken
        self._last, self._overdue = taken, False
        self._writing = threading.Thread(
            target=self._write, args=(step, writers, taken, stood_s), name="checkpoint", daemon=True
        )
        self._writing.start()

    def _write(self, step: int, writers: list[tuple[Writer, str]], taken: float, stood_s: float) -> None:
        name = f"step-{step:06d}"
        try:
            folder = self._folder(name)
            for write, place in writers:
                write(folder / place)
            self._publish(step, name, folder, taken, f"training stood still for {stood_s:.3f} s")
        except BaseException as error:
            self._error = error
            return
        self.stored = step
        # On a CPU the writing takes its time from the training, so all of it counts.
        took_s = time.monotonic() - taken if self.engine.device.type == "cpu" else stood_s
        self._cost_s = took_s if self._cost_s is None else 0.5 * (self._cost_s + took_s)

    def _publish(self, step: int, name: str, folder: Path, taken: float, words: str) -> None:
        """``age_s`` of the event is the time since the state was taken: what was done after it is not in it."""
        full = isinstance(self.engine.adapters[self.adapter], FullWeights)
        published = self.ctx.publish_folder(folder, name)
        age_s = round(time.monotonic() - taken, 3)
        self.ctx.emit(
            "checkpoint",
            step=step,
            final=name == "final",
            name=name,
            uri=published["uri"],
            files=published["files"],
            format="full" if full else "peft",
            age_s=age_s,
        )
        text = f"Checkpoint {name} stored in {age_s:.1f} s; {words}."
        self.ctx.emit("log", step=step, level="info", text=text)
        shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        folder = self.ctx.scratch / "checkpoints" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _wait(self, seconds: float | None) -> bool:
        """Whether nothing is on its way any more. Raises what has gone wrong there."""
        if self._writing is not None:
            self._writing.join(seconds)
            if self._writing.is_alive():
                if self.ctx.stop_requested():
                    raise RunStopped
                return False
            self._writing = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True
