"""The further recipes on the platform's own model: each moves what it should in a few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.recording import LastNumberScorer, RecordingContext, SimpleRow, sums
from trainers.engine.base_models import resolve_base_model
from trainers.envs import ENVIRONMENTS
from trainers.presets import BY_KEY
from trainers.recipes.run import run_recipe
from trainers.spec import parse_spec

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return resolve_base_model("smollm2-135m-instruct", tmp_path_factory.mktemp("models"))


def run(preset: str, folder: Path, scratch: Path, rows, *, steps: int, **sections: Any):
    task = BY_KEY[preset].task("dataset:x@1").model_dump(mode="json")
    task["hyperparameters"] |= {"steps": steps, "batch_size": 4, "minibatches": 1, "warmup_steps": 0}
    task["evaluation"] |= {"prompts": 0}
    for name, section in sections.items():
        task[name] |= section
    context = RecordingContext(parse_spec(task), scratch)
    scorer = LastNumberScorer() if task["reward"] else None
    run_recipe(context, model_path=folder, train_rows=rows, eval_rows=[], scorer=scorer, threads=2)
    return context


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(
    "preset",
    [
        "best-of-n",
        pytest.param("ppo-critic", marks=pytest.mark.prove),
        pytest.param("dapo", marks=pytest.mark.prove),
    ],
)
def test_sums_are_learned(preset, folder, tmp_path):
    train, _ = sums(0, 9, 0.2)
    sampling = {"group_size": 8, "max_new_tokens": 12, "overlong_tokens": 0}
    context = run(
        preset,
        folder,
        tmp_path,
        train,
        steps=12,
        sampling=sampling,
        hyperparameters={"steps": 12, "batch_size": 6, "minibatches": 1, "warmup_steps": 0, "learning_rate": 5e-4},
        critic={"warmup_steps": 1},
    )
    rewards = context.values("train/reward")
    assert mean(rewards[-3:]) > mean(rewards[:2]) + 0.15, rewards


def test_pairs_are_told_apart(folder, tmp_path):
    def row(index: int) -> SimpleRow:
        question = {"role": "user", "content": f"Name a colour, please. ({index})"}
        pair = [[question, {"role": "assistant", "content": text}] for text in ("Blue.", "I cannot help with that.")]
        return SimpleRow([question], "Blue.", pair[0], {}, *pair)

    context = run("dpo", folder, tmp_path, [row(i) for i in range(16)], steps=6)
    assert context.values("train/margin")[-1] > 0.2 and context.values("train/accuracy")[-1] == 1.0


def test_dialogues_are_played_and_rewarded(folder, tmp_path):
    tasks = ENVIRONMENTS["guess"].tasks(24, 1)
    rows = [SimpleRow([{"role": "user", "content": t["prompt"]}], t["answer"], row=t) for t in tasks]
    context = run("guess", folder, tmp_path, rows, steps=2)
    rollouts = context.of("rollout")
    assert max(rollout["parts"]["turns"] for rollout in rollouts) > 1
    assert all("» It is" in rollout["completion"] for rollout in rollouts if rollout["parts"]["turns"] > 2)
    assert max(context.values("train/logprob_mismatch")) < 1e-3
