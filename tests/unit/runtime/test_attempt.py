"""An attempt ends exactly once, with a name for whatever happened, and everything it said in safety first."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainers.errors import RunError, RunStopped
from trainers.runtime import attempt as module
from trainers.runtime.attempt import AttemptRun
from trainers.runtime.events import Event
from trainers.runtime.journal import JournalError, read_local
from trainers.runtime.payload import Launch, attempt_folder
from trainers.runtime.segments import journal_prefix, read_segments
from trainers.storage import Storage, StorageError

Work = Callable[[AttemptRun], dict[str, Any]]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(
        attempt_id="a1",
        epoch=3,
        name="job-a1",
        spec={"recipe": "sft", "data": {"source": "dataset:x@1"}},
        storage_url=f"file://{tmp_path}/store",
        dataset_key="objects/aa/aa",
        dataset_file="rows.jsonl",
        base_model="tiny-random-llama",
        cache_dir=str(tmp_path / "cache"),
        work_dir=str(tmp_path / "work"),
        threads=1,
    )


@pytest.fixture
def begin(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Work], AttemptRun]]:
    runs: list[AttemptRun] = []

    def begin(work: Work, **changes: Any) -> AttemptRun:
        monkeypatch.setattr(module, "run_work", lambda ctx, launch, storage: work(ctx))
        run = AttemptRun(launch.model_copy(update=changes), ship_timeout=10.0)
        runs.append(run)
        run.start()
        return run

    yield begin
    for run in runs:
        run.cancel(0.0)
        assert run.wait(20)


def _events(run: AttemptRun) -> list[Event]:
    return list(read_local(attempt_folder(run.launch.work_dir, run.launch.attempt_id)))


def _states(run: AttemptRun) -> list[str]:
    return [event["state"] for event in _events(run) if event["kind"] == "state"]


def _until_stopped(ctx: AttemptRun) -> dict[str, Any]:
    ctx.emit("log", level="info", text="working")
    assert ctx._stop.wait(20)
    raise RunStopped


def test_a_run_that_succeeds_says_so_last_and_is_in_storage_whole(begin: Any, launch: Launch) -> None:
    def work(ctx: AttemptRun) -> dict[str, Any]:
        (ctx.scratch / "adapter").mkdir()
        (ctx.scratch / "adapter" / "w").write_bytes(b"123")
        published = ctx.publish_folder(ctx.scratch / "adapter", "final")
        ctx.emit("checkpoint", step=5, final=True, name="final", format="peft", **published)
        return {"steps": 5}

    run = begin(work)
    assert run.wait(20)
    found = _events(run)
    assert [event["kind"] for event in found] == ["state", "checkpoint", "state"]
    assert found[-1] | {"t": 0} == {
        "seq": 3,
        "t": 0,
        "kind": "state",
        "state": "succeeded",
        "result": {"steps": 5},
        "error": None,
    }
    assert found[1]["uri"] == "checkpoints/a1/3/final"
    storage = Storage(launch.storage_url)
    assert storage.read_manifest(found[1]["uri"]) == found[1]["files"]
    assert list(read_segments(storage, journal_prefix("a1", 3))) == found
    status = run.status()
    assert (status["state"], status["shipped"], status["last_seq"]) == ("succeeded", True, 3)
    assert not run.scratch.exists()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            RunError("not_finite", "The loss became NaN.", "Lower the learning rate.", "hyperparameters.learning_rate"),
            "not_finite",
        ),
        (StorageError("missing", "objects/aa/aa is not in the storage."), "storage"),
        (MemoryError(), "out_of_memory"),
        (ZeroDivisionError("division by zero"), "internal"),
        (SystemExit(1), "internal"),
    ],
)
def test_a_run_that_fails_says_why_and_only_the_log_has_a_traceback(
    begin: Any, error: BaseException, kind: str
) -> None:
    def work(ctx: AttemptRun) -> dict[str, Any]:
        raise error

    run = begin(work)
    assert run.wait(20)
    last = _events(run)[-1]
    assert (last["state"], last["error"]["kind"]) == ("failed", kind)
    assert "Traceback" not in str(last)
    logged = [event["text"] for event in _events(run) if event["kind"] == "log"]
    assert any("Traceback" in text for text in logged) == (kind == "internal")


def test_what_the_run_prints_and_logs_is_in_its_journal(begin: Any) -> None:
    def work(ctx: AttemptRun) -> dict[str, Any]:
        sys.stdout.write("a printed line\n")
        logging.getLogger("trainers.recipes").info("a logged line")
        return {}

    run = begin(work)
    assert run.wait(20)
    assert [e["text"] for e in _events(run) if e["kind"] == "log"] == ["a printed line", "a logged line"]


def test_cancel_ends_a_run_that_listens(begin: Any) -> None:
    run = begin(_until_stopped)
    assert run.journal.wait(1, 20)
    run.cancel()
    run.cancel()
    assert run.wait(20)
    assert _states(run) == ["started", "cancelled"]


def test_cancel_before_the_start_is_a_cancelled_run(launch: Launch) -> None:
    run = AttemptRun(launch)
    run.cancel()
    run.start()
    assert run.wait(20)
    assert _states(run) == ["started", "cancelled"]


def test_a_run_that_does_not_listen_is_left_behind_and_cannot_speak_again(begin: Any) -> None:
    go_on, stopped = threading.Event(), threading.Event()

    def work(ctx: AttemptRun) -> dict[str, Any]:
        ctx.emit("log", level="info", text="working")
        assert go_on.wait(20)
        try:
            ctx.emit("log", level="info", text="too late")
        except RunStopped:
            stopped.set()
            raise
        return {"steps": 1}

    run = begin(work)
    assert run.journal.wait(1, 20)
    run.cancel(grace_s=0.05)
    assert run.wait(20)
    go_on.set()
    assert stopped.wait(20)
    run._thread.join(20)
    assert _states(run) == ["started", "cancelled"]
    texts = [event.get("text", "") for event in _events(run)]
    assert any("did not stop within 0.05 s" in text for text in texts)
    assert "too late" not in texts


def test_what_breaks_while_stopping_is_a_cancelled_run(begin: Any) -> None:
    def work(ctx: AttemptRun) -> dict[str, Any]:
        assert ctx._stop.wait(20)
        raise ValueError("the sampler was closed")

    run = begin(work)
    run.cancel()
    assert run.wait(20)
    assert _states(run) == ["started", "cancelled"]


def test_polling_by_cursor_sees_each_event_once_and_the_last_word_only_when_all_is_safe(
    begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, asked = threading.Event(), threading.Event()
    real = Storage.put_bytes

    def slow(self: Storage, key: str, data: bytes) -> None:
        asked.set()
        assert gate.wait(20)
        real(self, key, data)

    monkeypatch.setattr(Storage, "put_bytes", slow)

    def work(ctx: AttemptRun) -> dict[str, Any]:
        for step in range(50):
            ctx.emit("metric", step=step, values={"a": 1.0}, tokens=step, active_s=0.0)
        return {}

    run = begin(work)
    seen: list[int] = []
    while len(seen) < 51:
        answer = run.poll(seen[-1] if seen else 0, 20.0, 7)
        seen += [event["seq"] for event in answer["events"]]
        assert len(answer["events"]) <= 7
    assert asked.wait(20)
    held = run.poll(51, 0.0, 7)
    assert held["events"] == [] and held["state"] in ("running", "finishing") and held["more"] is False
    gate.set()
    last = run.poll(51, 20.0, 7)
    assert [(event["seq"], event["state"]) for event in last["events"]] == [(52, "succeeded")]
    assert (last["state"], last["shipped"], last["more"]) == ("succeeded", True, False)
    assert seen == list(range(1, 52))


def test_an_impossible_spec_or_storage_is_a_failure_with_a_name(begin: Any) -> None:
    def work(ctx: AttemptRun) -> dict[str, Any]:
        return {"recipe": ctx.spec.recipe}

    wrong = begin(work, attempt_id="a2", spec={"recipe": "sft", "data": {}})
    assert wrong.wait(20)
    assert _events(wrong)[-1]["error"]["field"] == "data.source"
    nowhere = begin(work, attempt_id="a3", storage_url="ftp://x")
    assert nowhere.wait(20)
    assert _events(nowhere)[-1]["error"]["kind"] == "storage"


def test_a_store_that_refuses_a_checkpoint_fails_the_run_by_name(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("full", "The disk of the storage is full.")

    monkeypatch.setattr(Storage, "put_folder", refuse)
    run = begin(lambda ctx: ctx.publish_folder(ctx.scratch, "final"))
    assert run.wait(20)
    assert _events(run)[-1]["error"] == {
        "retry": False,
        "kind": "storage",
        "message": "The disk of the storage is full.",
        "advice": "Free space in the storage, then start again.",
        "field": None,
    }


def test_a_work_folder_that_cannot_be_used_is_an_error_in_words(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(JournalError, match=r"work folder .* cannot be used"):
        AttemptRun(launch)


def test_a_launch_with_a_strange_attempt_is_refused(launch: Launch) -> None:
    with pytest.raises(ValueError, match="attempt_id"):
        Launch.model_validate({**launch.model_dump(), "attempt_id": "../../etc"})
