"""A run that goes on from a checkpoint equals the run that never stopped, to the bit."""

from __future__ import annotations

import hashlib
import json
import shutil
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.recording import RecordingContext, SimpleRow
from trainers.errors import RunError
from trainers.recipes.context import Score, ScoredInput
from trainers.recipes.resuming import verify
from trainers.recipes.run import run_recipe
from trainers.spec import parse_spec


class Killed(Exception):
    """Stands for the death of the process."""


class ShareOfLetters:
    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        shares = [
            sum(c in string.ascii_lowercase for c in row.completion) / max(1, len(row.completion)) for row in rows
        ]
        return [Score(share, {"share": share}, share > 0.5) for share in shares]


def row(index: int) -> SimpleRow:
    question = {"role": "user", "content": f"colour {index}?"}
    answers = [[question, {"role": "assistant", "content": word}] for word in ("green", "RED!")]
    return SimpleRow([question], "green", answers[0], {"a": index, "b": 1}, *answers)


ROWS = [row(index) for index in range(7)]  # a pass ends in the middle of a batch
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "sft": ("sft", {"hyperparameters": {"schedule": "cosine", "warmup_steps": 2}}),
    "grpo": ("grpo", {"loss": {"kl_coefficient": 0.1}}),
    "grpo, one step off-policy": (
        "grpo",
        {"sampling": {"one_step_off_policy": True}, "loss": {"importance_cap": 2.0}},
    ),
    "grpo, dynamic sampling, minibatches": (
        "grpo",
        {"sampling": {"dynamic_rounds": 2}, "hyperparameters": {"minibatches": 2, "updates_per_batch": 2}},
    ),
    "ppo_critic": ("ppo_critic", {"critic": {"warmup_steps": 1}}),
    "dpo": ("dpo", {}),
    "best_of_n": ("best_of_n", {}),
    "all weights": ("grpo", {"model": {"adapter": {"kind": "full"}}}),
    "episodes": ("grpo", {"environment": {"kind": "sums"}, "sampling": {"max_new_tokens": 4}}),
}


def run(
    context: RecordingContext, folder: Path, resume: Path | None = None, rows: Sequence[SimpleRow] = ROWS
) -> dict[str, Any]:
    scorer = ShareOfLetters() if context.spec.reward else None
    return run_recipe(
        context, model_path=folder, train_rows=rows, eval_rows=ROWS[:2], scorer=scorer, threads=1, resume_from=resume
    )


def told(context: RecordingContext) -> list[dict[str, Any]]:
    """What a run said of its training: metrics, rollouts, hints and the hashes of the last adapter."""
    events = []
    for event in context.events:
        if event["kind"] == "metric":
            values = {k: v for k, v in event["values"].items() if not k.startswith("system/")}
            events.append({"step": event["step"], "values": values, "tokens": event["tokens"]})
        elif event["kind"] in ("rollout", "hint"):
            events.append(event)
        elif event["kind"] == "checkpoint" and event["final"]:
            events.append({"step": event["step"], "files": event["files"]})
    return events


def task(kind: str, every: int = 1000) -> dict[str, Any]:
    """A small task of a kind, with a checkpoint every so many steps."""
    recipe, sections = KINDS[kind]
    merged: dict[str, Any] = {
        "recipe": recipe,
        "data": {"source": "rows"},
        "model": {"base": "tiny-random-llama", "adapter": {"rank": 8}},
        "hyperparameters": {"steps": 6, "batch_size": 3, "learning_rate": 0.01},
        "sampling": {"group_size": 4, "max_new_tokens": 6},
        "evaluation": {"every_steps": 4, "prompts": 2, "samples_per_prompt": 1},
        "checkpointing": {"every_steps": every},
        "seed": 3,
    }
    if recipe in ("grpo", "ppo_critic", "best_of_n") and "environment" not in sections:
        merged["reward"] = {"components": [{"kind": "length", "maximum": 10}]}
    return merged | {name: {**merged.get(name, {}), **section} for name, section in sections.items()}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., RecordingContext]:
    count = iter(range(100))

    def context(kind: str, every: int = 1000) -> RecordingContext:
        scratch = tmp_path / f"run-{next(count)}"
        scratch.mkdir()
        return RecordingContext(parse_spec(task(kind, every)), scratch)

    return context


def checkpoint(context: RecordingContext, step: int) -> Path:
    return context.scratch / "published" / f"step-{step:06d}" / "state"


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_equals_the_uninterrupted_one(make, tiny_folder, kind):
    whole = make(kind, every=1 if kind in ("sft", "grpo") else 3)
    result = run(whole, tiny_folder)
    for step in (1, 2, 5) if kind in ("sft", "grpo") else (3,):
        again = make(kind)
        resumed = run(again, tiny_folder, checkpoint(whole, step))
        assert told(again) == [event for event in told(whole) if event["step"] > step]
        assert any("files" in event for event in told(again)), "the adapter's hash is among it"
        assert {**resumed, "train_seconds": 0} == {**result, "train_seconds": 0}
        assert any(f"checkpoint of step {step}" in event["text"] for event in again.of("log"))


def test_a_run_killed_in_the_middle_of_a_step_goes_on(make, tiny_folder):
    whole = make("grpo")
    run(whole, tiny_folder)

    def die(event: dict[str, Any]) -> None:
        if event["kind"] == "rollout" and event["step"] == 4:
            raise Killed

    dying = make("grpo", every=1)
    dying.on_event = die
    with pytest.raises(Killed):
        run(dying, tiny_folder)
    again = make("grpo")
    run(again, tiny_folder, checkpoint(dying, 3))
    assert told(again) == [event for event in told(whole) if event["step"] > 3]


@pytest.fixture(scope="module")
def stored(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the sft run after step 2."""
    context = RecordingContext(parse_spec(task("sft", every=2)), tmp_path_factory.mktemp("stored"))

    def die(event: dict[str, Any]) -> None:
        if event["kind"] == "metric" and event["step"] == 3:
            raise Killed

    context.on_event = die
    with pytest.raises(Killed):
        run(context, tiny_folder)
    return checkpoint(context, 2)


@pytest.fixture
def state(stored: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(stored, tmp_path / "state"))


def test_time_and_progress_go_on_from_where_they_were(make, tiny_folder, state):
    record = json.loads((state / "run.json").read_text())
    record["active_s"] = 1000.0
    rewrite(state, "run.json", json.dumps(record))
    again = make("sft")
    run(again, tiny_folder, state)
    assert all(event["active_s"] > 1000 for event in again.of("metric"))
    fractions = [event["fraction"] for event in again.of("progress") if event["phase"] != "loading"]
    assert fractions == sorted(fractions) and fractions[0] > 0.5


def rewrite(state: Path, name: str, text: str) -> None:
    """Change a file together with its recorded hash."""
    (state / name).write_text(text)
    files = json.loads((state / "files.json").read_text())
    data = (state / name).read_bytes()
    files[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (state / "files.json").write_text(json.dumps(files))


@pytest.mark.parametrize(
    "name", ["run.json", "rng.safetensors", "policy/optimizer.safetensors", "policy/adapter.safetensors"]
)
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_checkpoint_is_refused_by_the_name_of_its_file(state, name, how):
    verify(state)
    path = state / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data if how == "flipped" else data[:-1])
    with pytest.raises(RunError, match=name) as caught:
        verify(state)
    assert caught.value.kind == "storage" and "earlier checkpoint" in caught.value.advice


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '{"run.json": 3}'])
def test_a_checkpoint_without_its_list_of_files_is_refused(state, text):
    (state / "files.json").unlink()
    if text is not None:
        (state / "files.json").write_text(text)
    with pytest.raises(RunError, match=r"files\.json"):
        verify(state)


def test_a_run_does_not_start_from_a_damaged_checkpoint(make, tiny_folder, state):
    (state / "policy" / "state.json").write_text("{}")
    context = make("sft")
    with pytest.raises(RunError, match=r"policy/state\.json is damaged"):
        run(context, tiny_folder, state)
    assert not context.of("metric")


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"version": 99}'])
def test_a_checkpoint_that_says_something_else_is_refused(make, tiny_folder, state, text):
    rewrite(state, "run.json", text)
    with pytest.raises(RunError, match="cannot be read"):
        run(make("sft"), tiny_folder, state)


def test_a_checkpoint_of_another_task_or_other_data_is_refused(make, tiny_folder, state):
    with pytest.raises(RunError, match="another task"):
        run(make("grpo"), tiny_folder, state)
    with pytest.raises(RunError, match="other data"):
        run(make("sft"), tiny_folder, state, ROWS[1:])


def test_name_budget_and_checkpoint_settings_may_change(make, tiny_folder, state):
    again = make("sft")
    changes = {"name": "other", "budget": {"minutes": 5}, "checkpointing": {"every_steps": 9}}
    again.spec = type(again.spec).model_validate(again.spec.model_dump() | changes)
    assert run(again, tiny_folder, state)["steps"] == 6
