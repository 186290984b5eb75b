"""One task sent to a sandbox's worker and its answer read, under a deadline and with bounds on every size."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

PRINTED_KEPT = 4000
START_SECONDS = 30.0
STOP_SECONDS = 5.0
_LINE_BYTES = 8 << 20
_BUSY = "Try again; the host may be short of memory."


class SandboxError(Exception):
    """The sandbox cannot run on this host, or its worker does not start; the text says why and what to do."""


@dataclass(slots=True)
class Outcome:
    """What a task gave before it ended: ``messages`` in order, and ``failure`` in words if it ended badly.

    ``late``: it was ended because its time was up.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    failure: str | None = None
    advice: str = ""
    late: bool = False


class Pipes(Protocol):
    """The platform's ends of a worker's pipes, all of them non-blocking."""

    tasks: Any
    results: Any
    prints: Any
    control: Any


class Exchange:
    """``number`` tells the tasks of one worker apart (0: its start). After :meth:`run`, ``trusted`` says whether the
    worker may get another task.

    ``each``: the seconds are for every message, not for all of them together.
    """

    def __init__(
        self, worker: Pipes, number: int, seconds: float, output: int, count: int, *, each: bool = False
    ) -> None:
        self._worker, self._number, self._seconds, self._each = worker, number, seconds, each
        self._output_limit, self._count = output, count
        self.outcome = Outcome()
        self.trusted = True
        self._pending = {"results": bytearray(), "control": bytearray()}
        self._printed = bytearray()
        self._printed_total = 0
        # The task's own time starts when the worker says so; until then the machine may just be busy.
        self._deadline = time.monotonic() + (START_SECONDS if number else seconds)
        self._started = self._stopping = self._done = False

    def run(self, request: bytes) -> Outcome:
        worker, unsent = self._worker, memoryview(request)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.control, selectors.EVENT_READ, self._read_control)
            selector.register(worker.results, selectors.EVENT_READ, self._read_results)
            selector.register(worker.prints, selectors.EVENT_READ, self._read_print)
            if unsent:
                selector.register(worker.tasks, selectors.EVENT_WRITE)
            while not self._done and self.trusted:
                left = self._deadline - time.monotonic()
                ready = selector.select(max(0.0, left))
                if left <= 0:  # looked at in every round: a trickle of output must not hold the clock
                    self._time_is_up()
                for key, _ in ready:
                    if key.data is None:
                        unsent = self._write(unsent)
                        if not unsent:
                            selector.unregister(worker.tasks)
                    elif not key.data():
                        selector.unregister(key.fileobj)
        self._drain()
        self.outcome.printed = self._printed.decode("utf-8", "replace")
        return self.outcome

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._worker.tasks.fileno(), unsent[:65536]) :]
        except BlockingIOError:
            return unsent
        except OSError:
            self._distrust("the sandbox's worker has ended", _BUSY)
            return unsent[:0]

    def _time_is_up(self) -> None:
        """Have the task killed; a worker that does not say so soon is not asked again."""
        late, self.outcome.late = self.outcome.late, True
        self._fail(
            f"it took longer than {self._seconds:g} s" + ("" if self._each else " for the batch"),
            "Make the function faster, or raise `timeout_s` of this component.",
        )
        if late or not self._started:
            self.trusted = False
            return
        self._stopping = True
        self._deadline = time.monotonic() + STOP_SECONDS
        stop = json.dumps({"stop": self._number}).encode() + b"\n"
        if len(self._write(memoryview(stop))):
            self.trusted = False

    def _read_control(self) -> bool:
        for message in self._lines("control", self._worker.control):
            if not isinstance(message, dict) or (self._number and message.get("id") != self._number):
                self._distrust("the sandbox's worker spoke out of turn", _BUSY)
            elif message.get("started"):
                self._started = True
                self._deadline = time.monotonic() + self._seconds
            elif "ready" in message:
                self._done = True
                self.outcome.messages.append(message)
            elif "end" in message:
                self._ended(message)
        return self.trusted

    def _read_results(self) -> bool:
        for message in self._lines("results", self._worker.results):
            if not isinstance(message, dict) or message.get("id") != self._number:
                self._misused_channel()
            elif self._stopping:
                continue
            elif len(self.outcome.messages) >= self._count:
                self._misused_channel()
            else:
                self.outcome.messages.append(message)
                if self._each:
                    self._deadline = time.monotonic() + self._seconds
        return self.trusted

    def _lines(self, channel: str, pipe: Any) -> list[Any]:
        """The messages that have come whole; None for what is no JSON."""
        data = pipe.read(65536)
        if data is None:
            return []
        if not data:
            self._distrust("the sandbox's worker has ended", _BUSY)
            return []
        pending = self._pending[channel]
        *lines, rest = data.split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                found.append(json.loads(bytes(pending) + line))
                pending.clear()
                continue
            pending.clear()
            found.append(None)
        pending += rest
        if len(pending) > _LINE_BYTES:
            self._misused_channel()
        return found

    def _misused_channel(self) -> None:
        self._distrust("it wrote to the sandbox's own channel", "Use print() for messages; leave file numbers alone.")

    def _ended(self, message: dict[str, Any]) -> None:
        self._done = True
        if message.get("clean") is not True:
            self.trusted = False
        code = message.get("end")
        if code == 0:
            return
        if isinstance(code, int) and -code in (signal.SIGXCPU, signal.SIGKILL):
            self._fail(
                "it was ended by the system for using too much processor time or memory",
                "Make the function faster and smaller, or raise `timeout_s`.",
            )
        else:
            self._fail(f"its process ended by itself ({_exit_words(code)})", "Return a number; never end the process.")

    def _read_print(self) -> bool:
        data = self._worker.prints.read(65536)
        if data:
            self._account(data)
        return data != b""

    def _drain(self) -> None:
        """Take what was said and printed before the task ended and is still in the pipes."""
        while self._done and self.trusted and self._number and self._more_results():
            self._read_results()
        while self.trusted and (data := self._worker.prints.read(65536)):
            self._account(data)

    def _more_results(self) -> bool:
        return bool(select.select([self._worker.results], [], [], 0)[0])

    def _account(self, data: bytes) -> None:
        self._printed_total += len(data)
        self._printed += data[: max(0, PRINTED_KEPT - len(self._printed))]
        if self._printed_total > self._output_limit:
            limit = self._output_limit // 1024
            self._distrust(f"it printed more than {limit} KiB in one batch", "Print less, or nothing at all.")

    def _distrust(self, failure: str, advice: str) -> None:
        self.trusted = False
        self._fail(failure, advice)

    def _fail(self, failure: str, advice: str) -> None:
        if self.outcome.failure is None:
            self.outcome.failure, self.outcome.advice = failure, advice


def _exit_words(code: object) -> str:
    if isinstance(code, int) and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
