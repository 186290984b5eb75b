"""The journal of an attempt: an append-only, numbered file of events on local disk.

Any thread appends; one thread writes. It takes everything that has gathered (group commit), numbers it, writes and
syncs it, and only then lets readers see it: what was served survives a crash. Numbers are given at that moment, so
they have no gaps, whatever had to be left out on a full disk. Readers go by cursor: the newest few megabytes come
from memory, older events from the file through a sparse index, so a slow reader costs no memory.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from trainers.runtime import events
from trainers.runtime.events import Event
from trainers.runtime.valve import LogValve
from trainers.storage import explain, sync_folder

FILE_NAME = "journal.jsonl"
RESERVE_NAME = "reserve"
INDEX_STRIDE = 64
RESERVE_BYTES = 1 << 20
VITAL_KINDS = ("state", "checkpoint")
LAST_TRIES = 6

Queued = tuple[float, str, bytes]  # moment, kind, body


class JournalError(Exception):
    """The journal cannot take or show events; the message says why."""


class JournalFull(JournalError):
    """The disk is full. Only the last words of a run (its state, its checkpoints) are still taken."""


class Journal:
    """See the module. ``folder`` is the attempt's own; opening it again goes on after the last whole event.

    ``sync_interval`` is the pause between two syncs; ``tail_bytes`` is kept in memory for readers, and ``queue_bytes``
    bounds what waits for a slow disk (then ``append`` waits, and gives up after ``patience`` seconds).
    """

    def __init__(
        self,
        folder: Path,
        *,
        sync_interval: float = 0.05,
        tail_bytes: int = 4 << 20,
        queue_bytes: int = 8 << 20,
        patience: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = folder / FILE_NAME
        self._sync_interval, self._patience, self._clock = sync_interval, patience, clock
        self._tail_limit, self._queue_limit = tail_bytes, queue_bytes
        self._condition = threading.Condition()  # re-entrant
        self._queue: list[Queued] = []
        self._queue_bytes = 0
        self._accepted = self._settled = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._valve = LogValve()
        self._closing = self._closed = self._full = False
        self.error: str | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._reserve = folder / RESERVE_NAME
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        weakref.finalize(self, os.close, self._file)
        self._last_seq, self._offset, self._index = _recover(self._file)
        self._make_reserve()
        sync_folder(folder)
        self._thread = threading.Thread(target=self._write_loop, name="journal", daemon=True)
        self._thread.start()

    @property
    def last_seq(self) -> int:
        """Number of the newest event that is safely on disk; 0 when there is none."""
        return self._last_seq

    @property
    def synced_bytes(self) -> int:
        """Length of the file up to and including event ``last_seq``."""
        return self._offset

    def append(self, kind: str, step: int | None = None, **fields: Any) -> None:
        """Queue one event. Raises ``ValueError`` for one that breaks the contract and :class:`JournalError` when the
        journal is closed, or the disk full or too slow."""
        if kind == "log" and not self._valve.admit(str(fields.get("level"))):
            return
        body = events.body(events.make(kind, step, **fields))
        with self._condition:
            if kind == "state":  # nothing should come after a run's last word
                self._push_valve_note(final=True)
            self._wait_for_room(len(body), vital=kind in VITAL_KINDS)
            self._push(kind, body)

    def read(self, after: int, limit: int = 1000, max_bytes: int = 1 << 20) -> list[Event]:
        """Up to ``limit`` events with ``seq > after``, in order; at least one if there is one, whatever its size."""
        return [events.decode(line) for line in self._lines(after, limit, max_bytes)]

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until an event with ``seq > after`` can be read; False when none came in time or the journal closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._last_seq > after or self._closed, timeout)
            return self._last_seq > after

    def wait_for_bytes(self, count: int, timeout: float) -> None:
        """Wait until the file has ``count`` synced bytes, the journal closes, or time is up."""
        with self._condition:
            self._condition.wait_for(lambda: self._offset >= count or self._closed, timeout)

    def chunk(self, offset: int, max_bytes: int) -> bytes:
        """Whole synced lines from byte ``offset`` (a line's start) on, about ``max_bytes`` of them."""
        size = min(max(max_bytes, 2 * events.MAX_EVENT_BYTES), self._offset - offset)
        data = _read_fully(self._file, offset, size)
        return data[: data.rfind(b"\n") + 1]

    def flush(self, timeout: float = 30.0) -> None:
        """Return once everything appended so far is on disk. Raises :class:`JournalError` when that takes too long."""
        with self._condition:
            wanted = self._accepted
            self._condition.wait_for(lambda: self._settled >= wanted or self._closed, timeout)
            if self._settled < wanted:
                raise JournalError(self.error or "the journal's disk is too slow")

    def close(self, timeout: float = 30.0) -> None:
        """Write what is queued and stop taking events. Reading goes on working."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join(timeout)
        with suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    def _wait_for_room(self, size: int, *, vital: bool) -> None:
        def may_pass() -> bool:
            has_room = self._queue_bytes + size <= self._queue_limit or self._queue_bytes == 0
            return self._closing or self._full or vital or has_room

        if not self._condition.wait_for(may_pass, self._patience):
            raise JournalError(self.error or "the journal's disk is too slow")
        if self._closing:
            raise JournalError("the journal is closed")
        if self._full and not vital:
            raise JournalFull(self.error or "the disk is full")

    def _push(self, kind: str, body: bytes) -> None:
        self._queue.append((self._clock(), kind, body))
        self._queue_bytes += len(body)
        self._accepted += 1
        self._condition.notify_all()

    def _push_valve_note(self, *, final: bool = False) -> None:
        if note := self._valve.note(final=final):
            with self._condition:
                self._push("log", events.body(events.log("warning", note)))

    def _write_loop(self) -> None:
        failures = 0
        while not (self._closed or failures >= LAST_TRIES):
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._closing, 1.0)
                closing = self._closing
            self._push_valve_note(final=closing)
            written = self._commit()
            if closing:  # nobody will come back to a disk that refuses the last events again and again
                failures += not written
                self._closed = written and not self._queue
            time.sleep(0.0 if self._closed else self._sync_interval if written else 0.5)
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _commit(self) -> bool:
        """Number, write and sync everything queued; False when the disk refused."""
        with self._condition:
            batch = self._queue
            self._queue = []
        if not batch:
            return True
        lines = [events.number(body, seq, moment) for seq, (moment, _, body) in enumerate(batch, self._last_seq + 1)]
        try:
            _write_fully(self._file, self._offset, b"".join(lines))
            os.fdatasync(self._file)
        except OSError as error:
            return self._refused(batch, error)
        with self._condition:
            for line in lines:
                self._remember(line)
            self._queue_bytes -= sum(len(body) for _, _, body in batch)
            self._settled += len(batch)
            if not self._full:
                self.error = None
            self._condition.notify_all()
        return True

    def _remember(self, line: bytes) -> None:
        if self._last_seq % INDEX_STRIDE == 0:
            self._index.append(self._offset)
        self._last_seq += 1
        self._offset += len(line)
        self._tail.append(line)
        self._tail_bytes += len(line)
        while self._tail_bytes > self._tail_limit:
            self._tail_bytes -= len(self._tail.popleft())

    def _refused(self, batch: list[Queued], error: OSError) -> bool:
        """Put the batch back. On a full disk give up the reserve and keep only what must be said."""
        reason = explain(error, "the journal", str(self.path.parent))
        with suppress(OSError):
            os.ftruncate(self._file, self._offset)
        with self._condition:
            self.error = reason.message
            self._queue = batch + self._queue
            if reason.kind == "full" and not self._full:
                self._full = True
                with suppress(OSError):
                    self._reserve.unlink(missing_ok=True)
                kept = [item for item in self._queue if item[1] in VITAL_KINDS]
                left_out = len(self._queue) - len(kept)
                note = events.log("error", f"{left_out} events left out: {reason.message}")
                self._settled += left_out
                self._accepted += 1
                self._queue = [(self._clock(), "log", events.body(note)), *kept]
            self._queue_bytes = sum(len(body) for _, _, body in self._queue)
            self._condition.notify_all()
        return False

    def _make_reserve(self) -> None:
        # A disk without room for it will say so at the first event.
        with suppress(OSError), self._reserve.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)

    def _lines(self, after: int, limit: int, max_bytes: int) -> list[bytes]:
        with self._condition:
            last = self._last_seq
            if after >= last:
                return []
            first_kept = last - len(self._tail) + 1
            if after + 1 >= first_kept:
                start = after + 1 - first_kept
                return _bounded(islice(self._tail, start, None), limit, max_bytes)
            stride, skip = divmod(max(after, 0), INDEX_STRIDE)
            offset, end = self._index[stride], self._offset
        return _bounded(_file_lines(self._file, offset, end, skip), limit, max_bytes)


def read_local(path: Path, after: int = 0) -> Iterator[Event]:
    """The whole events of a journal file whose writer is gone (or the folder it is in), from ``after`` on.

    A torn or damaged line ends it. Raises :class:`JournalError` when there is no such file.
    """
    file_path = path / FILE_NAME if path.is_dir() else path
    try:
        file = file_path.open("rb")
    except OSError as error:
        raise JournalError(explain(error, "the journal", str(file_path)).message) from error
    with file:
        for seq, line in enumerate(file, start=1):
            if not (_looks_whole(line, seq) and (event := _decoded(line))):
                return
            if seq > after:
                yield event


def _recover(file: int) -> tuple[int, int, array[int]]:
    """Last whole event, its end, and the index of a file; what follows (a torn line after a crash) is cut off."""
    seq = offset = 0
    index: array[int] = array("Q")
    last = b""
    size = os.fstat(file).st_size
    for line in _file_lines(file, 0, size, 0):
        if not _looks_whole(line, seq + 1):
            break
        if seq % INDEX_STRIDE == 0:
            index.append(offset)
        seq += 1
        offset += len(line)
        last = line
    if last and not _decoded(last):  # only the end can be torn, so only it is worth the time
        seq -= 1
        offset -= len(last)
        del index[-(-seq // INDEX_STRIDE) :]
    if offset < size:
        os.ftruncate(file, offset)
        os.fsync(file)
    return seq, offset, index


def _looks_whole(line: bytes, seq: int) -> bool:
    return line.endswith(b"}\n") and line.startswith(b'{"seq":%d,' % seq) and b"\0" not in line


def _decoded(line: bytes) -> Event | None:
    try:
        return events.decode(line)
    except ValueError:
        return None


def _bounded(lines: Iterator[bytes], limit: int, max_bytes: int) -> list[bytes]:
    taken: list[bytes] = []
    size = 0
    for line in lines:
        size += len(line)
        if taken and (size > max_bytes or len(taken) >= limit):
            break
        taken.append(line)
    return taken


def _file_lines(file: int, offset: int, end: int, skip: int) -> Iterator[bytes]:
    """Lines of ``[offset, end)`` without the first ``skip``; a last line without line feed comes as it is."""
    rest = b""
    while offset < end:
        block = _read_fully(file, offset, min(1 << 18, end - offset))
        if not block:
            break
        offset += len(block)
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            if skip:
                skip -= 1
            else:
                yield line + b"\n"
    if rest:
        yield rest


def _read_fully(file: int, offset: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.pread(file, size, offset)):
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return b"".join(parts)


def _write_fully(file: int, offset: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view = view[written:]
        offset += written
