"""Runs the code of users in a process of its own: no network, no files, no secrets, and limits on all it can take.

:class:`Sandbox` is the near side: it starts a worker (:mod:`trainers.rewards.jail`), sends it batches, watches the
clock and the amount of output, and replaces the worker whenever anything about it is in doubt. Messages are JSON lines
over pipes, and what comes back is treated like any other input of strangers.

Nothing runs on a host that cannot wall the code in, unless ``TUNEYARD_SANDBOX_ALLOW_WEAK=1`` says that every author
of a reward is trusted there; :func:`isolation_report` tells what holds, by trying it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY_BYTES = 512 << 20
OUTPUT_BYTES = 1 << 20
PRINTED_KEPT = 4000
START_SECONDS = 30.0
ALLOW_WEAK = "TUNEYARD_SANDBOX_ALLOW_WEAK"
_LINE_BYTES = 8 << 20
_JAIL = Path(__file__).parent
_LAUNCH = "import sys; sys.path.append({!r}); from jail.main import main; sys.path.pop(); main()"
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
# A fixed seed: the order of a set must not decide a reward.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "HOME": "/scratch", "TMPDIR": "/scratch"}


class SandboxError(Exception):
    """The sandbox cannot run on this host, or its worker does not start; the text says why and what to do."""


@dataclass(slots=True)
class Outcome:
    """What a task gave before it ended: ``messages`` in order, and ``failure`` in words if it ended badly."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    failure: str | None = None
    advice: str = ""


class Sandbox:
    """One worker, started at first use and kept until :meth:`close`; safe to use from several threads, one at a time.

    ``without`` switches walls off (``namespaces``, ``landlock``, ``seccomp``) to see what the others hold.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = OUTPUT_BYTES,
        without: frozenset[str] = frozenset(),
        python: str = sys.executable,
        user: int | None = None,
    ) -> None:
        self._memory, self._output = memory_bytes, output_bytes
        self._without, self._python, self._user = without, python, user
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._count = 0

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self) -> dict[str, Any]:
        """What isolation the host gives, as tried by the worker itself."""
        with self._lock:
            return dict(self._started().report)

    def run(
        self, task: str, payload: Mapping[str, Any], *, count: int, seconds: float, trusted: bool = False
    ) -> Outcome:
        """Run one of the jail's tasks for at most ``seconds`` of wall-clock time, for at most ``count`` messages.

        ``trusted``: the task runs no code of users (a pattern), so that the limits alone are enough.
        Raises :class:`SandboxError` when no worker can be had; whatever the task does is in the :class:`Outcome`.
        """
        content = json.dumps(payload, default=str).encode()
        with self._lock:
            worker = self._started()
            if not (trusted or worker.report["sufficient"] or os.environ.get(ALLOW_WEAK) == "1"):
                raise SandboxError(
                    "This host cannot isolate the code of users. "
                    + " ".join(worker.report["lacks"])
                    + f" Use another kind of reward, allow namespaces or Landlock on the host, or set {ALLOW_WEAK}=1 "
                    "if every author of a reward is trusted."
                )
            self._count += 1
            header = {"id": self._count, "task": task, "memory": self._memory, "seconds": seconds, "size": len(content)}
            outcome = _Exchange(worker, self._count, seconds, self._output, count).run(
                json.dumps(header).encode() + b"\n" + content
            )
            if not worker.usable:
                self._close()
            return outcome

    def close(self) -> None:
        """End the worker and everything in it. The next :meth:`run` starts another."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def _started(self) -> _Worker:
        if self._worker is not None and self._worker.process.poll() is not None:
            self._close()
        if self._worker is None:
            self._worker = _Worker(self._python, self._without, self._user)
        return self._worker


class _Worker:
    """The worker's processes, pipes and folder."""

    def __init__(self, python: str, without: frozenset[str], user: int | None) -> None:
        self.usable = True
        self.folder = tempfile.mkdtemp(prefix="tuneyard-sandbox-")
        if user is not None:
            os.chown(self.folder, user, user)
        lifeline, self._lifeline = os.pipe()
        config = json.dumps({"folder": self.folder, "lifeline": lifeline, "without": sorted(without)})
        try:
            self.process = subprocess.Popen(
                [python, *_FLAGS, "-c", _LAUNCH.format(str(_JAIL)), config],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(lifeline,),
                start_new_session=True,
                env=_ENVIRONMENT,
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        except OSError as error:
            os.close(self._lifeline)
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SandboxError(f"The sandbox's worker does not start: {error}.") from error
        finally:
            os.close(lifeline)
        self._finish = weakref.finalize(self, _end, self.process, self._lifeline, self.folder)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.tasks, self.results, self.prints = self.process.stdin, self.process.stdout, self.process.stderr
        for stream in (self.tasks, self.results, self.prints):
            os.set_blocking(stream.fileno(), False)
        try:
            self.report = self._await_report()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._finish()

    def _await_report(self) -> dict[str, Any]:
        outcome = _Exchange(self, 0, START_SECONDS, OUTPUT_BYTES, 1).run(b"", last="ready")
        for message in outcome.messages:
            if isinstance(report := message.get("ready"), dict):
                return report
        reason = outcome.printed.strip() or outcome.failure or "it ended without a word"
        raise SandboxError(f"The sandbox's worker does not start: {reason}")


def _end(process: subprocess.Popen[bytes], lifeline: int, folder: str) -> None:
    """Cut the lifeline, at which the keeper kills the worker; then wait for it, and clear its folder away."""
    os.close(lifeline)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()  # the server dies with its keeper (PDEATHSIG)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    shutil.rmtree(folder, ignore_errors=True)


class _Exchange:
    """One task sent and its answer read, under a deadline and with bounds on every size."""

    def __init__(self, worker: _Worker, number: int, seconds: float, output: int, count: int) -> None:
        self._worker, self._number, self._seconds = worker, number, seconds
        self._output_limit, self._count = output, count
        self._outcome = Outcome()
        self._pending = bytearray()
        self._printed = bytearray()
        self._printed_total = 0
        # The task's own time starts when it says so; until then the machine may just be busy.
        self._deadline = time.monotonic() + (START_SECONDS if number else seconds)
        self._done = False

    def run(self, request: bytes, last: str = "end") -> Outcome:
        worker, unsent = self._worker, memoryview(request)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.results, selectors.EVENT_READ, self._read_result)
            selector.register(worker.prints, selectors.EVENT_READ, self._read_print)
            if unsent:
                selector.register(worker.tasks, selectors.EVENT_WRITE)
            while not self._done and self._outcome.failure is None:
                left = self._deadline - time.monotonic()
                ready = selector.select(max(0.0, left))
                if left <= 0:  # looked at in every round: a trickle of output must not hold the clock
                    self._fail_on_time()
                for key, _ in ready:
                    if key.data is None:
                        unsent = self._write(unsent)
                        if not unsent:
                            selector.unregister(worker.tasks)
                    elif not key.data(last):
                        selector.unregister(key.fileobj)
        self._drain_prints()
        if self._outcome.failure is not None:
            worker.usable = False
        self._outcome.printed = self._printed.decode("utf-8", "replace")
        return self._outcome

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._worker.tasks.fileno(), unsent[:65536]) :]
        except BlockingIOError:
            return unsent
        except OSError:
            self._fail("the sandbox's worker has ended", "Try again; the host may be short of memory.")
            return unsent[:0]

    def _read_result(self, last: str) -> bool:
        data = self._worker.results.read(65536)
        if data is None:
            return True
        if not data:
            self._fail("the sandbox's worker has ended", "Try again; the host may be short of memory.")
            return False
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(bytes(self._pending) + line, last)
            self._pending.clear()
        self._pending += rest
        if len(self._pending) > _LINE_BYTES:
            self._misused_channel()
        return self._outcome.failure is None

    def _take(self, line: bytes, last: str) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or (self._number and message.get("id") != self._number):
            self._misused_channel()
        elif message.get("started"):
            self._deadline = time.monotonic() + self._seconds
        elif last in message:
            self._finished(message)
        elif len(self._outcome.messages) >= self._count:
            self._misused_channel()
        else:
            self._outcome.messages.append(message)

    def _misused_channel(self) -> None:
        self._fail("it wrote to the sandbox's own channel", "Use print() for messages; leave file numbers alone.")

    def _finished(self, message: dict[str, Any]) -> None:
        self._done = True
        if "ready" in message:
            self._outcome.messages.append(message)
            return
        if message.get("clean") is not True:
            self._worker.usable = False
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

    def _read_print(self, _: str) -> bool:
        data = self._worker.prints.read(65536)
        if data:
            self._account(data)
        return data != b""

    def _drain_prints(self) -> None:
        """Take what was printed before the task ended and is still in the pipe."""
        while self._outcome.failure is None and (data := self._worker.prints.read(65536)):
            self._account(data)

    def _account(self, data: bytes) -> None:
        self._printed_total += len(data)
        self._printed += data[: max(0, PRINTED_KEPT - len(self._printed))]
        if self._printed_total > self._output_limit:
            limit = self._output_limit // 1024
            self._fail(f"it printed more than {limit} KiB in one batch", "Print less, or nothing at all.")

    def _fail_on_time(self) -> None:
        self._fail(
            f"it took longer than {self._seconds:g} s for the batch",
            "Make the function faster, or raise `timeout_s` of this component.",
        )

    def _fail(self, failure: str, advice: str) -> None:
        if self._outcome.failure is None:
            self._outcome.failure, self._outcome.advice = failure, advice


def _exit_words(code: object) -> str:
    if isinstance(code, int) and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


@functools.lru_cache(maxsize=1)
def isolation_report() -> dict[str, Any]:
    """What a sandbox on this host holds against, found out by one that tries: JSON-serializable.

    ``sufficient``; ``holds`` and ``walls`` for files, network and processes; ``lacks``: a sentence for each wall
    that the host does not give. A host on which no worker starts has ``sufficient`` false and the reason in ``lacks``.
    """
    try:
        with Sandbox() as sandbox:
            return sandbox.report()
    except SandboxError as error:
        holds = {"files": False, "network": False, "processes": False}
        return {"sufficient": False, "holds": holds, "walls": {}, "lacks": [str(error)]}
