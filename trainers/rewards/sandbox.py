"""Runs the code of users in a process of its own: no network, no files, no secrets, and limits on all it can take.

:class:`Sandbox` is the near side: it starts a worker (:mod:`trainers.rewards.jail`), sends it batches, watches the
clock and the amount of output, has a task killed when its time is up, and replaces the worker whenever anything about
it is in doubt. Messages are JSON lines over pipes, and what comes back is treated like any other input of strangers.

Nothing runs on a host that cannot wall the code in, unless ``TUNEYARD_SANDBOX_ALLOW_WEAK=1`` says that every author
of a reward is trusted there; :func:`isolation_report` tells what holds, by trying it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from trainers.rewards.exchange import Exchange, Outcome, SandboxError
from trainers.rewards.worker import OUTPUT_BYTES, Tool, Worker

__all__ = ["ALLOW_WEAK", "Outcome", "Sandbox", "SandboxError", "isolation_report"]

MEMORY_BYTES = 512 << 20
ALLOW_WEAK = "TUNEYARD_SANDBOX_ALLOW_WEAK"


class Sandbox:
    """One worker, started at first use and kept until :meth:`close`; safe to use from several threads, one at a time.

    ``tools`` are modules of our own with their packages, for tasks that need more than the standard library.
    ``without`` switches walls off (``namespaces``, ``landlock``, ``seccomp``) to see what the others hold; ``user``
    starts the worker as another user.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = OUTPUT_BYTES,
        without: frozenset[str] = frozenset(),
        python: str = sys.executable,
        user: int | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        self._memory, self._output = memory_bytes, output_bytes
        self._without, self._python, self._user, self._tools = without, python, user, tuple(tools)
        self._lock = threading.Lock()
        self._worker: Worker | None = None
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
        self,
        task: str,
        payload: Mapping[str, Any],
        *,
        count: int,
        seconds: float,
        trusted: bool = False,
        each: bool = False,
    ) -> Outcome:
        """Run one of the jail's tasks for at most ``seconds`` of wall-clock time, for at most ``count`` messages.

        ``trusted``: the task runs no code of users (a pattern), so that the limits alone are enough. ``each``: the
        seconds are for every message, not for all of them together.
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
            processor = seconds * (count if each else 1)
            header = {"id": self._count, "task": task, "memory": self._memory, "seconds": processor}
            exchange = Exchange(worker, self._count, seconds, self._output, count, each=each)
            outcome = exchange.run(json.dumps({**header, "size": len(content)}).encode() + b"\n" + content)
            if not exchange.trusted:
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

    def _started(self) -> Worker:
        if self._worker is not None and self._worker.process.poll() is not None:
            self._close()
        if self._worker is None:
            self._worker = Worker(self._python, self._without, self._user, self._tools)
        return self._worker


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
