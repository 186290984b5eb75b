"""When a checkpoint is due, and that writing one neither holds up nor hides anything."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from trainers.engine.lora import LoraConfig
from trainers.errors import RunError, RunPaused
from trainers.recipes.checkpoints import Checkpointer
from trainers.recipes.interval import FIRST_S, SHORTEST_S, due_after_s


def writer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text("{}")


@pytest.fixture
def make(make_context, engine) -> Any:
    engine.add_adapter("policy", LoraConfig(rank=2))

    def checkpointer(**checkpointing: Any) -> Checkpointer:
        context = make_context(checkpointing=checkpointing)
        return Checkpointer(context, engine, "policy", mtbf_s=86_400.0)

    return checkpointer


def test_the_interval_is_that_of_young_and_daly_within_its_bounds():
    assert due_after_s(600, None, 86_400) == FIRST_S
    assert due_after_s(30, None, 86_400) == 30
    assert due_after_s(10_000, 8.0, 10_000.0) == 400.0
    assert due_after_s(100, 8.0, 10_000.0) == 100
    assert due_after_s(600, 1e-9, 86_400) == SHORTEST_S


def test_steps_go_on_while_a_checkpoint_is_being_stored(make, monkeypatch):
    monkeypatch.setattr("trainers.recipes.checkpoints.PATIENCE_S", 0.0)
    checkpoints = make(every_steps=1)
    gate, store = threading.Event(), checkpoints.ctx.publish_folder

    def slow(local: Path, name: str) -> dict[str, Any]:
        assert gate.wait(30)
        return store(local, name)

    checkpoints.ctx.publish_folder = slow
    for step in (1, 2, 3):
        checkpoints.after_step(step, lambda: writer)
    assert not checkpoints.ctx.of("checkpoint"), "one is on its way, and the steps were not held up"
    gate.set()
    checkpoints.settle()
    checkpoints.after_step(4, lambda: writer)
    checkpoints.settle()
    assert [event["step"] for event in checkpoints.ctx.of("checkpoint")] == [1, 4]


def test_what_fails_while_storing_is_raised_at_the_next_step(make):
    checkpoints = make(every_steps=1)

    def full(local: Path, name: str) -> dict[str, Any]:
        raise RunError("storage", "The disk of the storage is full.", "Free space.")

    checkpoints.ctx.publish_folder = full
    checkpoints.after_step(1, lambda: writer)
    checkpoints.settle()
    with pytest.raises(RunError, match="is full"):
        checkpoints.after_step(2, lambda: writer)
    assert checkpoints.stored == 0


def test_the_state_is_that_of_the_step_even_if_it_is_written_later(make, engine):
    checkpoints = make(every_steps=1)
    begun = threading.Event()

    def late(folder: Path) -> None:
        assert begun.wait(30)
        writer(folder)

    values = engine.adapters["policy"].values.clone()
    checkpoints.after_step(1, lambda: late)
    engine.adapters["policy"].values.add_(1.0)
    begun.set()
    checkpoints.settle()
    from safetensors.torch import load_file

    stored = load_file(checkpoints.ctx.scratch / "published" / "step-000001" / "adapter_model.safetensors")
    assert sum(float(value.abs().sum()) for value in stored.values()) == pytest.approx(
        float(values.abs().sum()), rel=1e-5
    )


def test_a_pause_writes_a_checkpoint_of_the_step_it_came_in(make_context, tiny_folder):
    from tests.unit.recipes.test_resume import run, task
    from trainers.spec import parse_spec

    context = make_context()
    context.spec = parse_spec(task("grpo"))
    context.pause = lambda: any(event["step"] == 3 for event in context.of("rollout"))
    with pytest.raises(RunPaused):
        run(context, tiny_folder)
    (event,) = context.of("checkpoint")
    assert (event["step"], event["final"]) == (3, False)


def test_a_pause_before_the_first_step_takes_effect_at_once(make_context, tiny_folder):
    from tests.unit.recipes.test_resume import run, task
    from trainers.spec import parse_spec

    context = make_context()
    context.spec, context.pause = parse_spec(task("grpo")), lambda: True
    with pytest.raises(RunPaused):
        run(context, tiny_folder)
    assert not context.of("checkpoint") and not context.of("metric")
