"""What scoring may use: sandboxes, a connection to judges, and a limit of seconds below the components' own."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainers.rewards.calls import JudgeCalls
from trainers.rewards.sandbox import Outcome, Sandbox, SandboxError
from trainers.rewards.unscored import Unscored
from trainers.rewards.worker import Tool

TOOLS: Mapping[str, Tool] = {
    "equivalence": Tool(
        "mathematics", ("math-verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4-python3-runtime")
    ),
    "schemas": Tool(
        "schemas",
        ("jsonschema", "jsonschema-specifications", "referencing", "rpds-py", "attrs", "typing_extensions"),
    ),
    "similarity": Tool("similarity", ("rapidfuzz",)),
}


class Workshop:
    """The sandboxes of one scorer: one for the code of users and models, and one for each tool, started when needed."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._plain = [sandbox or Sandbox()]
        self._tools: dict[str, Sandbox] = {}
        self._lock = threading.Lock()

    def sandbox(self, task: str, place: int = 0) -> Sandbox:
        """The sandbox for a task. ``place`` tells those apart that work side by side."""
        with self._lock:
            if task not in TOOLS:
                while len(self._plain) <= place:
                    self._plain.append(Sandbox())
                return self._plain[place]
            if task not in self._tools:
                self._tools[task] = Sandbox(tools=[TOOLS[task]])
            return self._tools[task]

    def close(self) -> None:
        for sandbox in (*self._plain, *self._tools.values()):
            sandbox.close()


@dataclass(slots=True)
class Bench:
    """``trying``: a test bench, where no model's tokenizer is at hand. ``notes`` are told to the user, once each."""

    workshop: Workshop
    judges: JudgeCalls
    seconds: float = math.inf
    trying: bool = False
    printed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(
        self,
        task: str,
        payload: dict[str, Any],
        *,
        count: int,
        seconds: float,
        trusted: bool,
        each: bool = False,
        place: int = 0,
    ) -> Outcome:
        try:
            outcome = self.workshop.sandbox(task, place).run(
                task, payload, count=count, seconds=min(seconds, self.seconds), trusted=trusted, each=each
            )
        except SandboxError as error:
            advice = "Ask who runs this platform to look at the sandbox."
            raise Unscored(None, "cannot be computed", advice, str(error)) from error
        if outcome.printed:
            self.printed.append(outcome.printed)
        return outcome
