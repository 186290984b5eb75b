"""A part of the product: what to run, how to tell that it works, and how to end it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from config.home import ROOT
from config.launcher import processes
from config.launcher.problems import part_failed

CHILD = Path(__file__).with_name("child.py")
LOG_BYTES = 5 * 2**20
LOGS_KEPT = 3

Probe = Callable[[], str | None]


def _nothing() -> None:
    pass


def _running() -> str | None:
    return ""


@dataclass(frozen=True, slots=True)
class Part:
    """One supervised child.

    ``probe`` returns None while the part is not ready and a short detail once it is; it may raise, which means not
    ready, and must return within a second. A part with ``once`` is a step: it is done when it ends with 0.
    ``needs`` names parts that must be ready before; ``follows`` those whose restart restarts this one too.
    """

    name: str
    command: tuple[str, ...]
    probe: Probe = _running
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    once: bool = False
    prepare: Callable[[], None] = _nothing
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = 5.0
    start_seconds: float = 60.0
    user: str | None = None
    cwd: Path = ROOT
    pass_fds: tuple[int, ...] = ()
    stdin: str = ""


class Child:
    """A running part. It leads a session of its own, so that the terminal's Ctrl-C reaches only the launcher."""

    def __init__(self, part: Part, log: Path) -> None:
        self.part = part
        self.log = log
        self.began = time.monotonic()
        part.prepare()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.log_offset = output.tell()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(CHILD),
                    str(os.getpid()),
                    str(int(part.stop_signal)),
                    part.user or "-",
                    *part.command,
                ],
                stdin=subprocess.PIPE if part.stdin else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **part.env},
                cwd=part.cwd,
                pass_fds=part.pass_fds,
                start_new_session=True,
            )
        if part.stdin and self._process.stdin:
            with self._process.stdin as pipe:
                pipe.write(part.stdin.encode())
        self.id = processes.identify(self._process.pid) or processes.ProcessId(self._process.pid, 0.0)
        self.kin = {self.id}

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        return self._process.poll()

    def observe(self, table: dict[int, processes.Row]) -> None:
        """Remember the descendants that are there now: one that loses its parent later is still ours."""
        heads = {each.pid for each in self.kin if each.pid in table and _same(each, table[each.pid])}
        self.kin = {self.id} | processes.family(heads | {self.pid}, table)

    def check(self) -> str | None:
        """The probe's answer, None for a part that cannot answer yet."""
        try:
            return self.part.probe()
        except Exception:
            return None

    def signal(self, number: int) -> None:
        if self.exit_code() is None:
            self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        self.observe(processes.snapshot())
        self.signal(self.part.stop_signal)

    def finish(self) -> None:
        """Kill whatever the part has left: itself, if it did not end in time, and every descendant."""
        self.observe(processes.snapshot())
        processes.end(self.kin, grace_s=0.5)
        if self.exit_code() is None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        self.ask_to_stop()
        deadline = time.monotonic() + self.part.stop_seconds
        while self.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.finish()

    def tail(self, lines: int = 12) -> list[str]:
        """The last lines this child wrote."""
        try:
            with self.log.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(self.log_offset, size - 20_000))
                text = stream.read().decode(errors="replace")
        except OSError:
            return []
        return [line.rstrip()[:300] for line in text.splitlines() if line.strip()][-lines:]


def _same(each: processes.ProcessId, row: processes.Row) -> bool:
    return abs(each.started - row.started) < processes.SAME_START_S


def exit_words(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def rotate(log: Path) -> None:
    """Put a log that has grown beyond LOG_BYTES aside, keeping the last LOGS_KEPT."""
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_suffix(f".log.{number}")
        if older.exists():
            shutil.move(older, log.with_suffix(f".log.{number + 1}"))
    shutil.move(log, log.with_suffix(".log.1"))


def start(part: Part, logs: Path) -> Child:
    """Start one part and wait until it is ready.

    Raises:
        Problem: it ended, or was not ready in time; nothing of it is left running.
    """
    child = Child(part, logs / f"{part.name}.log")
    deadline = child.began + part.start_seconds
    while True:
        code = child.exit_code()
        if code is not None:
            child.finish()
            if part.once and code == 0:
                return child
            raise part_failed(part.name, exit_words(code), child.log, child.tail())
        if not part.once and child.check() is not None:
            return child
        if time.monotonic() > deadline:
            child.stop()
            raise part_failed(part.name, f"was not ready within {part.start_seconds:.0f} s", child.log, child.tail())
        time.sleep(0.03)
