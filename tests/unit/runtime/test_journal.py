"""The journal: nothing served is ever lost, numbers have no gaps, memory stays bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.runtime import journal as module
from trainers.runtime.events import Event
from trainers.runtime.journal import Journal, JournalError, JournalFull, read_local
from trainers.runtime.valve import LogValve


def _metric(journal: Journal, step: int, **values: float) -> None:
    journal.append("metric", step=step, values=values, tokens=0, active_s=0.0)


def _everything(journal: Journal, limit: int = 100, max_bytes: int = 1 << 20) -> list[Event]:
    found: list[Event] = []
    while page := journal.read(found[-1]["seq"] if found else 0, limit, max_bytes):
        found += page
    return found


def test_events_are_served_in_order_once_they_are_on_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(300):
        _metric(journal, step, a=0.5)
    journal.flush()
    found = _everything(journal)
    assert [e["seq"] for e in found] == list(range(1, 301))
    assert [e["step"] for e in found] == list(range(300))
    assert list(read_local(tmp_path)) == found
    journal.close()
    assert _everything(journal) == found


def test_an_event_is_not_served_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, reached = threading.Event(), threading.Event()

    def held(_: int) -> None:
        reached.set()
        assert gate.wait(20)

    journal = Journal(tmp_path)
    monkeypatch.setattr(module.os, "fdatasync", held)
    _metric(journal, 1, a=1.0)
    assert reached.wait(20)
    assert journal.read(0) == []
    gate.set()
    assert journal.wait(0, 20)
    assert [e["seq"] for e in journal.read(0)] == [1]
    journal.close()


def test_a_waiting_reader_wakes_within_a_quarter_of_a_second(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    delays = []
    for step in range(20):
        start = time.monotonic()
        _metric(journal, step, a=1.0)
        assert journal.wait(step, 20)
        delays.append(time.monotonic() - start)
    journal.close()
    assert sorted(delays)[len(delays) // 2] < 0.25


def test_many_threads_append_without_gaps_or_losses(tmp_path: Path) -> None:
    journal = Journal(tmp_path, sync_interval=0.001)

    def write(worker: int) -> None:
        for i in range(200):
            _metric(journal, i, worker=float(worker))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    found = _everything(journal)
    assert [e["seq"] for e in found] == list(range(1, 1601))
    for worker in range(8):
        assert [e["step"] for e in found if e["values"]["worker"] == worker] == list(range(200))


def test_old_events_come_from_the_file_and_memory_stays_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tail_bytes=10_000, sync_interval=0.0)
    for step in range(3000):
        _metric(journal, step, value=1.0)
    journal.flush()
    assert sum(len(line) for line in journal._tail) <= 10_000
    assert len(journal._index) == 3000 // module.INDEX_STRIDE + 1
    for after in (0, 1, 63, 64, 65, 1500, 2990, 2999, 3000, 9999):
        page = journal.read(after, limit=70)
        assert [e["seq"] for e in page] == list(range(after + 1, min(after + 71, 3001)))
    assert [e["seq"] for e in _everything(journal, limit=77, max_bytes=3000)] == list(range(1, 3001))
    journal.close()


def test_a_page_is_bounded_by_bytes_but_never_empty(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for _ in range(4):
        journal.append("log", level="info", text="x" * 10_000)
    journal.flush()
    assert len(journal.read(0, max_bytes=25_000)) == 2
    assert len(journal.read(0, max_bytes=1)) == 1
    journal.close()


@pytest.mark.parametrize("torn", [b'{"seq":129,"t":1.0,"kind":"log"', b'{"seq":129,"t":1.0,"kind":"l}\n', b"\0" * 500])
def test_a_torn_end_is_cut_where_the_index_begins_anew(tmp_path: Path, torn: bytes) -> None:
    journal = Journal(tmp_path)
    for step in range(128):
        _metric(journal, step)
    journal.close()
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(torn)
    again = Journal(tmp_path)
    assert again.last_seq == 128
    for step in range(128, 140):
        _metric(again, step)
    again.close()
    assert [e["step"] for e in _everything(again, limit=9)] == list(range(140))


def test_numbering_goes_on_after_a_torn_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(130):
        _metric(journal, step)
    journal.close()
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"seq":131,"t":1.0,"kind":"log","lev')
    again = Journal(tmp_path)
    assert again.last_seq == 130
    _metric(again, 130)
    again.close()
    assert [e["step"] for e in read_local(tmp_path)] == list(range(131))
    assert [e["seq"] for e in _everything(again, limit=50)] == list(range(1, 132))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 4000), st.binary(max_size=30))
def test_whatever_is_left_of_a_file_its_whole_events_are_kept(cut: int, rubbish: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal(folder, sync_interval=0.0)
        for step in range(30):
            _metric(journal, step, a=1.0)
        journal.close()
        file = folder / "journal.jsonl"
        whole = file.read_bytes()
        cut = min(cut, len(whole))
        file.write_bytes(whole[:cut] + (rubbish if rubbish != whole[cut : cut + len(rubbish)] else b""))
        kept = whole[:cut].count(b"\n")
        assert [e["seq"] for e in read_local(folder)] == list(range(1, kept + 1))
        again = Journal(folder, sync_interval=0.0)
        assert again.last_seq == kept
        _metric(again, 99)
        again.close()
        assert [e["seq"] for e in read_local(folder)] == list(range(1, kept + 2))


WRITER = """
import sys
from pathlib import Path
from trainers.runtime.journal import Journal
journal = Journal(Path(sys.argv[1]), sync_interval=0.005)
step = 0
while True:
    step += 1
    journal.append("metric", step=step, values={"loss": 0.5}, tokens=step, active_s=0.1)
    if step % 50 == 0:
        print(journal.last_seq, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_kill_9_loses_no_event_that_could_have_been_served(tmp_path: Path, lines: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    served = 0
    seen = 0
    while seen < lines or served == 0:
        served = int(writer.stdout.readline())
        seen += 1
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(20)
    served = max([served, *(int(line) for line in writer.stdout.read().split("\n") if line)])
    writer.stdout.close()
    found = list(read_local(tmp_path))
    assert len(found) >= served > 0
    assert [e["seq"] for e in found] == [e["step"] for e in found] == list(range(1, len(found) + 1))
    again = Journal(tmp_path)
    assert again.last_seq == len(found)
    again.close()


def _full_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> dict[str, Any]:
    """From now on writes beyond ``room`` bytes fail as on a full disk; returns the room, which can be changed."""
    disk = {"room": room}
    real = os.pwrite

    def pwrite(file: int, data: Any, offset: int) -> int:
        free = disk["room"] - offset
        if free <= 0:
            raise OSError(28, "No space left on device")
        return real(file, data[:free], offset)

    monkeypatch.setattr(module.os, "pwrite", pwrite)
    return disk


def test_on_a_full_disk_the_last_words_are_kept_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    _metric(journal, 1)
    journal.flush()
    disk = _full_disk(monkeypatch, journal.synced_bytes + 1000)
    refused = 0
    for step in range(2, 5000):
        try:
            _metric(journal, step)
        except JournalFull as error:
            assert "is full" in str(error)
            refused += 1
            break
        assert journal.wait(journal.last_seq, 0.001) in (True, False)
    assert refused
    disk["room"] += 1 << 20  # what giving up the reserve makes free
    assert not (tmp_path / "reserve").exists()
    journal.append("state", state="failed", result=None, error={"kind": "storage"})
    journal.close()
    found = list(read_local(tmp_path))
    assert [e["seq"] for e in found] == list(range(1, len(found) + 1))
    assert [e["kind"] for e in found[-2:]] == ["log", "state"]
    assert "events left out: The disk of" in found[-2]["text"]
    assert journal.error is not None


def test_a_disk_that_is_too_slow_stops_the_writer_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(module.os, "fdatasync", lambda _: gate.wait(20))
    journal = Journal(tmp_path, queue_bytes=2000, patience=0.05)
    with pytest.raises(JournalError, match="too slow"):
        for step in range(1000):
            _metric(journal, step)
    assert journal._queue_bytes <= 2000
    gate.set()
    journal.close()


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        _metric(journal, 1)
    assert journal.wait(0, 20) is False


def test_a_flood_of_log_lines_is_bounded_and_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for i in range(20_000):
        journal.append("log", level="info", text=f"line {i}")
    journal.append("log", level="error", text="the one that matters")
    journal.close()
    texts = [e["text"] for e in read_local(tmp_path)]
    lines = [t for t in texts if t.startswith("line ")]
    notes = [int(t.split()[0]) for t in texts if "lines left out: the run writes more than" in t]
    assert 1000 <= len(lines) < 2000
    assert len(lines) + sum(notes) == 20_000
    assert "the one that matters" in texts


def test_the_valve_refills_with_time() -> None:
    now = [0.0]
    valve = LogValve(rate=10, burst=5, clock=lambda: now[0])
    assert [valve.admit("info") for _ in range(7)] == [True] * 5 + [False] * 2
    assert valve.note() is None
    now[0] = 6.0
    assert valve.note() == "2 lines left out: the run writes more than 10 lines a second."
    assert [valve.admit("info") for _ in range(6)] == [True] * 5 + [False]
    now[0] = 6.35
    assert [valve.admit("debug") for _ in range(4)] == [True] * 3 + [False]


def test_a_missing_journal_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is not in"):
        list(read_local(tmp_path / "nowhere"))
