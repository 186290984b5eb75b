"""Journals in storage: shipped as numbered segments while a run goes on, read back when its driver is gone.

Objects cannot be appended to, so a journal becomes ``<prefix>/<first>-<last>.jsonl`` pieces every few seconds, and one
piece at the end. Shipping runs beside training and can neither stop nor slow it: when storage fails it waits,
longer each time, and says so once in the log.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress

from trainers.runtime import events
from trainers.runtime.events import Event
from trainers.runtime.journal import Journal, JournalError
from trainers.storage import Storage, StorageError

INTERVAL_S = 5.0
SEGMENT_BYTES = 1 << 20
LARGEST_SEGMENT = 8 << 20
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

_NAME = re.compile(r"/(\d{12,})-(\d{12,})\.jsonl$")


class JournalGap(JournalError):
    """Events ``expected``…``found - 1`` are not in storage, but later ones are: go on with ``after=found - 1``."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(f"events {expected} to {found - 1} are missing in storage")
        self.expected, self.found = expected, found


def journal_prefix(attempt_id: str, epoch: int) -> str:
    """Where the journal of an attempt lies in storage. The epoch keeps a writer that lost its attempt apart."""
    return f"journals/{attempt_id}/{epoch}"


def segment_key(prefix: str, first: int, last: int) -> str:
    return f"{prefix}/{first:012d}-{last:012d}.jsonl"


class Shipper:
    """Copies a journal to storage from a thread of its own, from where the last run of it stopped."""

    def __init__(
        self,
        journal: Journal,
        storage: Storage,
        prefix: str,
        *,
        interval: float = INTERVAL_S,
        segment_bytes: int = SEGMENT_BYTES,
        first_pause: float = FIRST_PAUSE_S,
    ) -> None:
        self._journal, self._storage, self._prefix = journal, storage, prefix
        self._interval, self._segment_bytes, self._first_pause = interval, segment_bytes, first_pause
        self._shipped_seq = self._shipped_bytes = 0
        self._keys: list[str] = []
        self._pause = first_pause
        self._finishing = threading.Event()
        self._woken = threading.Event()
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, name="journal-shipper", daemon=True)

    @property
    def shipped_seq(self) -> int:
        """Number of the newest event that is in storage."""
        return self._shipped_seq

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout: float) -> bool:
        """Ship the rest (close the journal first) and make one piece of all.

        False when storage did not take it in time; the attempts go on in the background.
        """
        self._finishing.set()
        self._woken.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            finishing = self._finishing.is_set()
            if not finishing:
                self._journal.wait_for_bytes(self._shipped_bytes + self._segment_bytes, self._interval)
            try:
                self._ship_new()
                if finishing and self._journal.synced_bytes == self._shipped_bytes:
                    self._compact()
                    return
            except Exception as error:
                self._failed(str(error))

    def _ship_new(self) -> None:
        while self._journal.synced_bytes > self._shipped_bytes:
            data = self._journal.chunk(self._shipped_bytes, LARGEST_SEGMENT)
            first = self._shipped_seq + 1
            last = self._shipped_seq + data.count(b"\n")
            key = segment_key(self._prefix, first, last)
            self._storage.put_bytes(key, data)
            self._keys.append(key)
            self._shipped_seq = last
            self._shipped_bytes += len(data)
            self._recovered()

    def _compact(self) -> None:
        if len(self._keys) > 1:
            whole = segment_key(self._prefix, 1, self._shipped_seq)
            self._storage.put_file(whole, self._journal.path)
            for key in self._keys:
                self._storage.delete(key)
            self._keys = [whole]

    def _failed(self, reason: str) -> None:
        if self.error is None:
            self._say(
                "warning", f"The journal could not be copied to storage; the run goes on and tries again. {reason}"
            )
        self.error = reason
        if self._woken.wait(self._pause):  # being asked to finish is worth one try at once, not a busy loop
            self._woken.clear()
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)

    def _recovered(self) -> None:
        if self.error is not None:
            self._say("info", "The journal is copied to storage again.")
        self.error, self._pause = None, self._first_pause

    def _say(self, level: events.Level, text: str) -> None:
        with suppress(JournalError):
            self._journal.append("log", level=level, text=text)


def read_segments(storage: Storage, prefix: str, after: int = 0) -> Iterator[Event]:
    """The events of a journal in storage with ``seq > after``, in order, each once.

    Overlapping pieces are fine, and a piece that is damaged or was replaced meanwhile is passed over when another
    holds its events. Raises :class:`JournalGap` when later events follow a hole, and ``StorageError``.
    """
    pieces = _pieces(storage, prefix)
    while True:
        reached = after
        # Of the pieces that hold the next event, the longest reach comes first.
        fitting = sorted((p for p in pieces if p[0] <= after + 1 <= p[1]), key=lambda p: -p[1])
        for first, _, key in fitting:
            for event in _read_piece(storage, key, first, after):
                after = event["seq"]
                yield event
            if after > reached:
                break
        if after == reached:
            break
    later = [first for first, last, _ in pieces if last > after]
    if not later:
        return
    fresh = _pieces(storage, prefix)
    if fresh != pieces and any(first <= after + 1 <= last for first, last, _ in fresh):
        yield from read_segments(storage, prefix, after)  # the writer made one piece of them while we read
        return
    beyond = [first for first in later if first > after + 1]
    if beyond:
        raise JournalGap(after + 1, min(beyond))


def _pieces(storage: Storage, prefix: str) -> list[tuple[int, int, str]]:
    matches = ((_NAME.search(key), key) for key in storage.list(prefix))
    return sorted((int(match[1]), int(match[2]), key) for match, key in matches if match)


def _read_piece(storage: Storage, key: str, first: int, after: int) -> Iterator[Event]:
    """Events of one piece after ``after``, up to its end or to the first damaged line."""
    try:
        stream = storage.open_read(key)
    except StorageError as error:
        if error.kind == "missing":
            return
        raise
    with stream:
        for seq, line in enumerate(stream, start=first):
            if seq <= after:
                continue
            try:
                event = events.decode(line)
            except ValueError:
                return
            if event["seq"] != seq or not line.endswith(b"\n"):
                return
            yield event
