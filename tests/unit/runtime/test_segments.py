"""Journals in storage: shipped beside the run, read back whole, with storage failing, slow, and cut."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.runtime import events
from trainers.runtime.journal import Journal
from trainers.runtime.segments import JournalGap, Shipper, journal_prefix, read_segments, segment_key
from trainers.storage import Storage, StorageError

PREFIX = journal_prefix("7", 2)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(f"file://{tmp_path}/store")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "attempt", sync_interval=0.001)
    yield journal
    journal.close()


def _log(journal: Journal, *texts: str) -> None:
    for text in texts:
        journal.append("log", level="info", text=text)
    journal.flush()


def _wait(condition: threading.Event) -> None:
    assert condition.wait(20)


def _segment(first: int, last: int) -> bytes:
    return b"".join(events.number(events.body(events.log("info", f"n{n}")), n, 1.0) for n in range(first, last + 1))


class Flaky(Storage):
    """A store that refuses while ``down`` is set, and says when it was asked and when it took something."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.down, self.asked, self.took = threading.Event(), threading.Event(), threading.Event()

    def put_bytes(self, key: str, data: bytes) -> None:
        self.asked.set()
        if self.down.is_set():
            raise StorageError("unreachable", "The store does not answer.")
        super().put_bytes(key, data)
        self.took.set()


def test_a_journal_arrives_in_pieces_and_ends_as_one(journal: Journal, storage: Storage) -> None:
    shipper = Shipper(journal, storage, PREFIX, interval=0.01, segment_bytes=1)
    shipper.start()
    for i in range(6):
        _log(journal, f"line {i}")
        while shipper.shipped_seq < i + 1:
            assert journal.wait(0, 1)
        assert [e["seq"] for e in read_segments(storage, PREFIX)] == list(range(1, i + 2))
    assert len(list(storage.list(PREFIX))) == 6
    _log(journal, "the last")
    journal.close()
    assert shipper.finish(20)
    assert list(storage.list(PREFIX)) == [segment_key(PREFIX, 1, 7)]
    assert list(read_segments(storage, PREFIX, 3)) == journal.read(3)


def test_a_failing_store_never_stops_the_run_and_is_reported_once(journal: Journal, tmp_path: Path) -> None:
    storage = Flaky(f"file://{tmp_path}/store")
    storage.down.set()
    shipper = Shipper(journal, storage, PREFIX, interval=0.01, first_pause=0.01)
    shipper.start()
    for i in range(4):
        _log(journal, f"line {i}")
        storage.asked.clear()
        _wait(storage.asked)
    assert shipper.error == "The store does not answer."
    storage.down.clear()
    _wait(storage.took)
    _log(journal, "end")
    journal.close()
    assert shipper.finish(20)
    texts = [e["text"] for e in read_segments(storage, PREFIX)]
    assert [t for t in texts if t.startswith("line")] == [f"line {i}" for i in range(4)]
    assert sum("could not be copied to storage" in t for t in texts) == 1
    assert shipper.error is None


def test_a_store_that_stays_down_does_not_hold_up_the_end(journal: Journal, tmp_path: Path) -> None:
    storage = Flaky(f"file://{tmp_path}/store")
    storage.down.set()
    shipper = Shipper(journal, storage, PREFIX, interval=0.01, first_pause=0.01)
    shipper.start()
    _log(journal, "line")
    journal.close()
    assert shipper.finish(0.2) is False
    storage.down.clear()
    assert shipper.finish(20) is True
    assert next(read_segments(storage, PREFIX))["text"] == "line"


def test_overlapping_pieces_give_each_event_once(storage: Storage) -> None:
    for first, last in [(1, 3), (4, 4), (1, 9), (5, 7), (8, 12)]:
        storage.put_bytes(segment_key(PREFIX, first, last), _segment(first, last))
    assert [e["seq"] for e in read_segments(storage, PREFIX)] == list(range(1, 13))
    assert [e["seq"] for e in read_segments(storage, PREFIX, 6)] == list(range(7, 13))
    assert list(read_segments(storage, PREFIX, 12)) == []


def test_a_piece_cut_in_the_middle_gives_its_whole_events_and_the_hole_is_named(storage: Storage) -> None:
    storage.put_bytes(segment_key(PREFIX, 1, 4), _segment(1, 4)[:-20])
    storage.put_bytes(segment_key(PREFIX, 5, 6), _segment(5, 6))
    found = []
    with pytest.raises(JournalGap, match="events 4 to 4 are missing") as caught:
        for event in read_segments(storage, PREFIX):
            found.append(event["seq"])
    assert found == [1, 2, 3]
    assert [e["seq"] for e in read_segments(storage, PREFIX, caught.value.found - 1)] == [5, 6]


def test_a_damaged_piece_is_passed_over_when_another_has_its_events(storage: Storage) -> None:
    storage.put_bytes(segment_key(PREFIX, 1, 6), _segment(1, 2) + b"\x00" * 50)
    storage.put_bytes(segment_key(PREFIX, 3, 4), _segment(3, 4))
    storage.put_bytes(segment_key(PREFIX, 5, 6), _segment(5, 6))
    assert [e["seq"] for e in read_segments(storage, PREFIX)] == [1, 2, 3, 4, 5, 6]


def test_pieces_that_become_one_while_they_are_read_are_still_read_whole(storage: Storage) -> None:
    for first in (1, 3, 5):
        storage.put_bytes(segment_key(PREFIX, first, first + 1), _segment(first, first + 1))
    found = []
    for event in read_segments(storage, PREFIX):
        found.append(event["seq"])
        if event["seq"] == 2:
            storage.put_bytes(segment_key(PREFIX, 1, 6), _segment(1, 6))
            for first in (1, 3, 5):
                storage.delete(segment_key(PREFIX, first, first + 1))
    assert found == [1, 2, 3, 4, 5, 6]


def test_an_attempt_without_segments_has_no_events(storage: Storage) -> None:
    storage.put_bytes(f"{PREFIX}/notes.txt", b"not a segment")
    assert list(read_segments(storage, PREFIX)) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=8), st.integers(0, 35))
def test_reading_gives_each_stored_event_once_or_names_the_hole(spans: list[tuple[int, int]], after: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        storage = Storage(name)
        stored = set()
        for first, more in spans:
            storage.put_bytes(segment_key(PREFIX, first, first + more), _segment(first, first + more))
            stored |= set(range(first, first + more + 1))
        wanted = sorted(seq for seq in stored if seq > after)
        found: list[int] = []
        cursor = after
        while True:
            try:
                for event in read_segments(storage, PREFIX, cursor):
                    found.append(event["seq"])
                break
            except JournalGap as gap:
                assert not stored & set(range(gap.expected, gap.found))
                cursor = gap.found - 1
        assert found == wanted
