"""Which processes are ours: by descent, by session, and from a list on disk after the launcher itself was killed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
# Start times come from the clock at boot, which a correction of the time may move a little.
SAME_START_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, told apart from a later one with the same number by the time it started (unix seconds)."""

    pid: int
    started: float

    def alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.started) < SAME_START_S and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def send(self, number: int) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


@dataclass(frozen=True, slots=True)
class Row:
    parent: int
    session: int
    started: float


def become_subreaper() -> None:
    """Have orphaned descendants handed to this process and not to init, so that none can slip away (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def identify(pid: int) -> ProcessId | None:
    try:
        return ProcessId(pid, psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def snapshot() -> dict[int, Row]:
    """Every process on the machine by pid."""
    table = {}
    for process in psutil.process_iter(["ppid", "create_time"]):
        with contextlib.suppress(OSError):
            table[process.pid] = Row(
                process.info["ppid"] or 0, os.getsid(process.pid), process.info["create_time"] or 0.0
            )
    return table


def family(roots: Iterable[int], table: dict[int, Row]) -> set[ProcessId]:
    """The roots, everything in a session one of them leads, and all descendants of these."""
    heads = set(roots)
    members = {pid for pid, row in table.items() if pid in heads or row.session in heads}
    return {ProcessId(pid, table[pid].started) for pid in members | _descendants(members | heads, table)}


def _descendants(heads: set[int], table: dict[int, Row]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    found: set[int] = set()
    todo = list(heads)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def reap(known: set[int]) -> None:
    """Collect the exit codes of adopted orphans, which nobody else waits for; ``known`` are children with an owner."""
    for child in psutil.Process().children():
        if child.pid not in known:
            with contextlib.suppress(OSError):
                os.waitpid(child.pid, os.WNOHANG)


def end_descendants() -> None:
    """End every descendant of this process.

    With ``become_subreaper`` these include the ones that lost their parent and left their session. Only for a program
    that is the launcher and nothing else.
    """
    table = snapshot()
    end((ProcessId(pid, table[pid].started) for pid in _descendants({os.getpid()}, table)), grace_s=1.0)
    reap(set())


def end(ids: Iterable[ProcessId], *, grace_s: float, first: int = signal.SIGTERM) -> None:
    """Ask the processes to end, wait up to ``grace_s`` seconds, then kill what is left."""
    left = [each for each in ids if each.pid != os.getpid() and each.alive()]
    for each in left:
        each.send(first)
    wait_gone(left, grace_s)
    left = [each for each in left if each.alive()]
    for each in left:
        each.send(signal.SIGKILL)
    wait_gone(left, 2.0)


def wait_gone(ids: Iterable[ProcessId], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    left = [each for each in ids if each.alive()]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [each for each in left if each.alive()]
    return not left


class Ledger:
    """The list of our processes on disk, for the start that follows a launcher that was killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: set[tuple[ProcessId, int]] = set()

    def write(self, entries: set[tuple[ProcessId, int]]) -> None:
        """``entries``: processes, each with the signal that ends it well (0 for those that only follow another)."""
        if entries == self._written:
            return
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps([asdict(each) | {"signal": number} for each, number in entries]))
        draft.replace(self.path)
        self._written = entries

    def read(self) -> list[tuple[ProcessId, int]]:
        try:
            return [
                (ProcessId(int(row["pid"]), float(row["started"])), int(row["signal"]))
                for row in json.loads(self.path.read_text())
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        self._written = set()


def end_leftovers(ledger: Ledger, *, grace_s: float = 10.0) -> int:
    """End what a killed launcher left behind; the number of processes that were still there."""
    entries = [(each, number) for each, number in ledger.read() if each.alive()]
    everyone = family((each.pid for each, _ in entries), snapshot()) if entries else set()
    for each, number in entries:
        if number:
            each.send(number)
    wait_gone([each for each, number in entries if number], grace_s)
    end(everyone, grace_s=2.0)
    ledger.clear()
    return len(everyone)
