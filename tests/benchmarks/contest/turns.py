"""Taking turns: a contestant is a process of its own that does one step when told to, and says what it took.

The loaded model stays in its process; who is not at turn sleeps on its standard input. One JSON object a line.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


class Turn:
    """The contestant's side: ``wait`` for the word, do the step, ``report`` it."""

    def __init__(self) -> None:
        # Libraries print to standard output; the answers have a stream of their own.
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._began = 0.0
        self._cpu = 0.0

    def wait(self) -> bool:
        """Whether another step is wanted; blocks until it is known."""
        if sys.stdin.readline().strip() != "go":
            return False
        self._began, self._cpu = time.monotonic(), time.process_time()
        return True

    def report(self, **figures: Any) -> None:
        wall, cpu = time.monotonic() - self._began, time.process_time() - self._cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.say(seconds=wall, cpu_s=cpu, peak_mb=peak, **figures)

    def say(self, **fields: Any) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()


class Contestant:
    """The referee's side of one process. ``python`` is the interpreter whose environment has what it needs."""

    def __init__(self, name: str, module: str, python: str, task: dict[str, Any], log: Path) -> None:
        self.name, self.log = name, log
        threads = str(task["threads"])
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "platform")]),
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "disabled",
        }
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [python, "-m", module, json.dumps(task)],
                cwd=ROOT,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.about = self._answer()

    def step(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer
