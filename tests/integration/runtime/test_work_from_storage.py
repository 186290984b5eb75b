"""An attempt fetches from storage what it goes on from: a published checkpoint, or an adapter. Without Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainers.data.sums import make_sums, to_jsonl
from trainers.runtime.attempt import AttemptRun
from trainers.runtime.events import Event
from trainers.runtime.journal import read_local
from trainers.runtime.payload import Launch, attempt_folder
from trainers.storage import Storage

TASK: dict[str, Any] = {
    "recipe": "sft",
    "model": {"base": "tiny-random-llama", "adapter": {"rank": 4, "alpha": 8}},
    "data": {"source": "dataset:sums@1"},
    "hyperparameters": {"steps": 4, "batch_size": 4, "learning_rate": 0.01},
    "evaluation": {"prompts": 4, "every_steps": 0},
    "checkpointing": {"every_steps": 2},
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def storage(bench: Path) -> Storage:
    return Storage(f"file://{bench}/store")


@pytest.fixture(scope="module")
def launch(bench: Path, storage: Storage) -> Launch:
    rows = bench / "sums.jsonl"
    rows.write_bytes(to_jsonl(make_sums(smallest=0, largest=5, held_out_pairs=4, template="{a}+{b}?").train))
    with rows.open("rb") as file:
        key, _, _ = storage.put_content(file)
    return Launch(
        attempt_id="first",
        epoch=1,
        name="job-first",
        spec=TASK,
        storage_url=storage.url,
        dataset_key=key,
        dataset_file="sums.jsonl",
        base_model="tiny-random-llama",
        cache_dir=str(bench / "models"),
        work_dir=str(bench / "work"),
        threads=1,
    )


def events_of(launch: Launch, **changes: Any) -> list[Event]:
    launch = Launch.model_validate(launch.model_dump() | changes)
    run = AttemptRun(launch)
    run.start()
    assert run.wait(100)
    return list(read_local(attempt_folder(launch.work_dir, launch.attempt_id)))


@pytest.fixture(scope="module")
def first(launch: Launch) -> list[Event]:
    return events_of(launch)


def of(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["kind"] == kind]


def test_an_attempt_goes_on_from_a_published_checkpoint(launch, first):
    middle, final = of(first, "checkpoint")
    resume = {"key": middle["uri"], "files": middle["files"]}
    again = events_of(launch, attempt_id="second", epoch=2, resume_from=[resume])
    assert of(again, "state")[-1]["state"] == "succeeded"
    assert [event["step"] for event in of(again, "metric")] == [3, 4, 4]
    assert of(again, "checkpoint")[-1]["files"] == final["files"], "the same bits as the run that never stopped"


def test_without_a_list_of_files_the_stored_manifest_is_read(launch, first):
    again = events_of(launch, attempt_id="third", resume_from=[{"key": of(first, "checkpoint")[0]["uri"]}])
    assert of(again, "state")[-1]["state"] == "succeeded"


@pytest.fixture(scope="module")
def spoiled(first, storage) -> dict[str, Any]:
    """A copy of the checkpoint in the middle with one bit of one file turned."""
    middle = of(first, "checkpoint")[0]
    for file in middle["files"]:
        data = bytearray(storage.get_bytes(f"{middle['uri']}/{file['name']}"))
        if file["name"] == "state/policy/optimizer.safetensors":
            data[-1] ^= 1
        storage.put_bytes(f"spoiled/{file['name']}", bytes(data))
    return {"key": "spoiled", "files": middle["files"]}


def test_a_spoiled_checkpoint_is_named_and_the_one_before_it_is_taken(launch, first, spoiled):
    middle, final = of(first, "checkpoint")
    again = events_of(
        launch, attempt_id="spoiled", resume_from=[spoiled, {"key": middle["uri"], "files": middle["files"]}]
    )
    (resume,) = of(again, "resume")
    assert (resume["step"], resume["name"], resume["damaged"]) == (2, "step-000002", ["spoiled"])
    assert any("state/policy/optimizer.safetensors" in event["text"] for event in of(again, "log"))
    assert of(again, "checkpoint")[-1]["files"] == final["files"]


def test_when_no_checkpoint_is_whole_the_run_begins_anew(launch, first, spoiled):
    final = of(first, "checkpoint")[-1]
    without_state = {"key": final["uri"], "files": final["files"]}
    again = events_of(launch, attempt_id="anew", resume_from=[spoiled, without_state])
    (resume,) = of(again, "resume")
    assert (resume["step"], resume["name"], resume["damaged"]) == (0, "", ["spoiled", final["uri"]])
    assert [event["step"] for event in of(again, "metric")] == [0, 1, 2, 3, 4, 4]
    assert of(again, "checkpoint")[-1]["files"] == final["files"]


def test_an_attempt_starts_from_a_stored_adapter(launch, first):
    final = of(first, "checkpoint")[-1]
    again = events_of(launch, attempt_id="warm", start_from={"key": final["uri"], "files": final["files"]})
    before = of(again, "state")[-1]["result"]["before"]["loss"]
    assert before == pytest.approx(of(first, "state")[-1]["result"]["after"]["loss"], rel=1e-5)


def test_an_environment_plays_the_rows_that_hold_its_tasks(launch, bench, storage):
    path = bench / "tasks.jsonl"
    tasks = [{"prompt": f"{i}?", "a": i, "b": 1} for i in range(8)] + [{"prompt": "odd", "a": "x", "b": 1}]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    with path.open("rb") as file:
        key, _, _ = storage.put_content(file)
    spec = {
        "recipe": "evaluate",
        "data": {"source": "environment", "max_bad_rows": 1},
        "environment": {"kind": "sums"},
        "sampling": {"max_new_tokens": 4},
        "evaluation": {"prompts": 8, "samples_per_prompt": 1, "greedy": False},
    }
    events = events_of(launch, attempt_id="plays", spec={**spec, "model": TASK["model"]}, dataset_key=key)
    last = of(events, "state")[-1]
    assert last["state"] == "succeeded" and last["result"]["eval_prompts"] == 8, last["error"]
    assert any("'a' must hold a whole number" in event["text"] for event in of(events, "log"))
