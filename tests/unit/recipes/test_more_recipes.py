"""Each further recipe learns something that can be measured, on the tiny model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.benchmarks.recording import RecordingContext, SimpleRow
from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.engine.lora import LoraConfig
from trainers.engine.optimizer import AdamParams
from trainers.engine.tiny import tiny_llama
from trainers.engine.value import ValueModel
from trainers.errors import RunError
from trainers.recipes.chat import chat_datum
from trainers.recipes.context import Score, ScoredInput
from trainers.recipes.run import run_recipe
from trainers.spec import parse_spec

REWARD = {"components": [{"kind": "length", "maximum": 10}]}


class Letters:
    """Reward: the share of the completion that is lower-case letters."""

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        shares = [sum(c.islower() for c in row.completion) / max(1, len(row.completion)) for row in rows]
        return [Score(share, {"share": share}, share > 0.5) for share in shares]


def row(index: int) -> SimpleRow:
    question = {"role": "user", "content": f"colour {index}?"}
    better, worse = ([question, {"role": "assistant", "content": word}] for word in ("green", "RED!!"))
    return SimpleRow([question], "green", better, {}, better, worse)


ROWS = [row(i) for i in range(12)]


def run(context: RecordingContext, folder: Path, scorer=None, **more):
    return run_recipe(
        context, model_path=folder, train_rows=ROWS[:8], eval_rows=ROWS[8:], scorer=scorer, threads=1, **more
    )


@pytest.mark.parametrize("loss", ["dpo", "ipo", "kto"])
def test_pairs_teach_which_answer_is_better(make_context, tiny_folder, loss):
    context = make_context(
        "dpo",
        loss={"name": loss, "beta": 0.1},
        hyperparameters={"steps": 12, "learning_rate": 0.01},
        evaluation={"every_steps": 6},
    )
    result = run(context, tiny_folder)
    assert context.values("train/margin")[0] == pytest.approx(0.0, abs=1e-4), "policy and reference are one at first"
    assert context.values("train/margin")[-1] > 0.2
    assert result["after"]["loss"] < result["before"]["loss"]
    assert context.values("train/accuracy")[-1] == 1.0 and result["after"]["accuracy"] >= 0.75
    assert context.values("train/reward_chosen")[-1] > context.values("train/reward_rejected")[-1]


def test_pairs_weigh_the_same_however_many_fit_into_a_pass(make_context, tiny_folder, monkeypatch):
    losses = []
    for tokens in (4096, 40):
        original = Engine.load

        def load(*given, limit=tokens, loader=original, **options):
            engine = loader(*given, **options)
            engine.tokens_per_pass = limit
            return engine

        with monkeypatch.context() as patched:
            patched.setattr(Engine, "load", load)
            context = make_context("dpo", hyperparameters={"steps": 3})
            run(context, tiny_folder)
        losses.append(context.values("train/loss"))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_rows_without_both_answers_are_left_out_and_counted(make_context, tiny_folder):
    context = make_context("dpo", hyperparameters={"steps": 1})
    bare = SimpleRow([{"role": "user", "content": "hm?"}], None)
    run_recipe(context, model_path=tiny_folder, train_rows=[*ROWS[:4], bare], eval_rows=[], scorer=None, threads=1)
    assert any("1 of 5 training rows lack a chosen" in event["text"] for event in context.of("log"))
    with pytest.raises(RunError) as caught:
        run_recipe(make_context("dpo"), model_path=tiny_folder, train_rows=[bare], eval_rows=[], scorer=None, threads=1)
    assert caught.value.kind == "bad_data" and caught.value.field == "data.columns.chosen"


def test_ppo_with_a_critic_learns_what_is_rewarded(make_context, tiny_folder):
    context = make_context(
        "ppo_critic",
        reward=REWARD,
        hyperparameters={"steps": 16, "learning_rate": 0.02},
        sampling={"group_size": 16},
        critic={"learning_rate": 0.03, "warmup_steps": 2, "gae_lambda": 1.0},
        evaluation={"prompts": 0},
    )
    run(context, tiny_folder, Letters())
    rewards = context.values("train/reward")
    assert rewards[-1] > rewards[0] + 0.3, rewards
    assert context.values("train/learning_rate")[:3] == [0.0, 0.0, 0.02]
    assert abs(context.values("train/value")[-1] - rewards[-1]) < 0.25, "the critic follows"
    names = {key for event in context.of("metric") for key in event["values"]}
    assert {"train/value_loss", "train/value", "train/clip_fraction", "system/mfu"} <= names


def test_the_critic_learns_to_foresee(tiny_folder):
    engine = Engine.load(tiny_folder, threads=1)
    critic = ValueModel(engine, "critic", LoraConfig(rank=4))
    plain = [Datum([1, 20 + i, 30, 31], [30, 31, 32]) for i in range(6)]
    assert critic.values(plain) == [[0.0] * 3] * 6
    target = [[float(i % 2), 0.5, 0.25 * i] for i in range(6)]
    for _ in range(100):
        arrays = [
            {"returns": goal, "old_values": value, "mask": [1.0] * 3}
            for goal, value in zip(target, critic.values(plain), strict=True)
        ]
        data = [Datum(d.tokens, d.targets, a) for d, a in zip(plain, arrays, strict=True)]
        figures = critic.train(data, AdamParams(0.02), 0.5)
    assert figures["value_loss"] < 0.02 and figures["explained_variance"] > 0.8


def test_a_critics_gradient_is_that_of_its_formula(tiny_folder):
    engine = Engine.load(tiny_folder, dtype=torch.float64, threads=1)
    critic = ValueModel(engine, "critic", LoraConfig(rank=2))
    with torch.no_grad():
        critic.head.values.add_(0.1)
    arrays = {"returns": [1.0, -1.0, 0.5], "old_values": [0.9, -0.2, 0.0], "mask": [1.0, 0.0, 1.0]}
    datum = Datum([1, 20, 30, 31], [30, 31, 32], arrays)

    def loss() -> float:
        total = 0.0
        for v, r, old, m in zip(critic.values([datum])[0], *arrays.values(), strict=True):
            clipped = old + min(max(v - old, -0.3), 0.3)
            total += 0.5 * m * max((v - r) ** 2, (clipped - r) ** 2) / 2
        return total

    assert critic.train([datum], AdamParams(1e-12), 0.3)["value_loss"] == pytest.approx(loss(), rel=1e-4)


def test_the_student_comes_nearer_to_its_teacher(make_context, tiny_folder, tmp_path):
    teacher = tiny_llama(tmp_path / "teacher", seed=8)
    context = make_context(
        "distill",
        distillation={"teacher": "another"},
        hyperparameters={"steps": 40, "learning_rate": 0.01},
        evaluation={"every_steps": 0},
    )
    run(context, tiny_folder, teacher_path=teacher)
    # The held-out rows are too few to tell: four samples.
    found = [e["values"]["train/teacher_kl"] for e in context.of("metric") if "train/teacher_kl" in e["values"]]
    assert sum(found[-8:]) < 0.8 * sum(found[:8])
    assert "train/reward" not in context.of("metric")[1]["values"]


@pytest.fixture(scope="module")
def learned(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that has learned to say green."""
    task = {
        "recipe": "sft",
        "data": {"source": "rows"},
        "model": {"base": "tiny-random-llama", "adapter": {"rank": 4, "alpha": 16.0}},
        "hyperparameters": {"steps": 40, "batch_size": 4, "learning_rate": 0.01},
        "evaluation": {"prompts": 0},
    }
    context = RecordingContext(parse_spec(task), tmp_path_factory.mktemp("learned"))
    run(context, tiny_folder)
    return context.scratch / "published" / "final"


def test_a_teacher_may_be_the_same_base_with_what_it_learned_before(make_context, tiny_folder, learned):
    context = make_context(
        "distill",
        reward=REWARD,
        distillation={"teacher_adapter": "model:x@1"},
        hyperparameters={"steps": 12, "learning_rate": 0.03},
        sampling={"group_size": 8},
        evaluation={"every_steps": 0},
    )
    run(context, tiny_folder, Letters(), teacher_adapter=learned)
    distances, rewards = context.values("train/teacher_kl"), context.values("train/reward")
    assert distances[-1] < 0.7 * distances[0]
    assert rewards[-1] > 2 * rewards[0], "the teacher says green, mostly"


def test_a_teacher_that_is_the_student_is_refused(make_context, tiny_folder):
    with pytest.raises(RunError, match="same model") as caught:
        run(make_context("distill", distillation={"teacher": "tiny"}), tiny_folder, teacher_path=tiny_folder)
    assert caught.value.field == "distillation.teacher"


def test_imitating_its_own_best_answers_raises_the_reward(make_context, tiny_folder):
    context = make_context(
        "best_of_n",
        reward=REWARD,
        selection={"keep": 2},
        hyperparameters={"steps": 14, "learning_rate": 0.03},
        sampling={"group_size": 12},
        evaluation={"every_steps": 0},
    )
    result = run(context, tiny_folder, Letters())
    assert result["after"]["reward"] > result["before"]["reward"] + 0.25
    kept, rewards = context.values("train/reward_kept"), context.values("train/reward")
    assert all(best > mean for best, mean in zip(kept, rewards, strict=True))
    assert context.values("train/kept")[0] <= 2 / 12


def test_nothing_is_imitated_where_nothing_is_good_enough(make_context, tiny_folder):
    context = make_context("best_of_n", reward=REWARD, selection={"minimum_reward": 5.0}, hyperparameters={"steps": 2})
    run(context, tiny_folder, Letters())
    assert context.values("train/kept") == [0.0, 0.0] and context.values("train/grad_norm") == [0.0, 0.0]


def test_evaluating_measures_and_changes_nothing(make_context, tiny_folder):
    context = make_context("evaluate", reward=REWARD)
    result = run(context, tiny_folder, Letters())
    assert result["before"] is None and result["after"]["samples"] == 4 * 2 and result["steps"] == 0
    assert not context.of("checkpoint")
    assert {event["phase"] for event in context.of("rollout")} == {"after"}
    assert context.of("progress")[-1]["fraction"] == 1.0


@pytest.mark.parametrize("recipe", ["sft", "grpo", "dpo", "evaluate"])
def test_training_can_go_on_from_an_earlier_model(make_context, tiny_folder, learned, recipe):
    sections = {"reward": REWARD} if recipe in ("grpo", "evaluate") else {}
    context = make_context(recipe, hyperparameters={"steps": 2, "learning_rate": 1e-9}, **sections)
    result = run(context, tiny_folder, Letters(), start_from=learned)
    if recipe == "sft":
        assert result["before"]["loss"] < 2.0, "it knows the answer already"
    elif recipe == "dpo":
        assert context.values("train/margin")[0] == pytest.approx(0.0, abs=1e-4), "the start is the reference"
    else:
        assert result["after"]["accuracy_greedy"] == 1.0, "it says green already"
    if recipe == "grpo":
        assert context.values("train/kl")[0] == pytest.approx(0.0, abs=1e-4), "the start is the reference"
    assert any("rank 4 and alpha 16" in event["text"] for event in context.of("log"))


def test_a_start_that_does_not_fit_is_a_named_error(make_context, tiny_folder, tmp_path):
    with pytest.raises(RunError) as caught:
        run(make_context("sft"), tiny_folder, start_from=tmp_path)
    assert caught.value.kind == "storage"


def test_all_weights_can_be_trained_and_load_again(make_context, tiny_folder):
    context = make_context(
        "sft",
        model={"adapter": {"kind": "full"}},
        hyperparameters={"steps": 20, "learning_rate": 0.01},
        evaluation={"every_steps": 0},
        checkpointing={"every_steps": 10},
    )
    result = run(context, tiny_folder)
    assert result["after"]["loss"] < result["before"]["loss"] / 2
    automatic, final = context.of("checkpoint")
    assert {automatic["format"], final["format"]} == {"full"}
    assert {file["name"].split("/")[0] for file in automatic["files"]} == {"state"}
    whole = Engine.load(context.scratch / "published" / "final", threads=1)
    data = [chat_datum(whole, row.messages) for row in ROWS[8:]]
    loss = whole.forward(None, data).loss / sum(sum(datum.flat("weights")) for datum in data)
    assert loss == pytest.approx(result["after"]["loss"], rel=1e-3)
