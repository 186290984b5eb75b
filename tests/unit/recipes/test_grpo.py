from __future__ import annotations

import math
import re
import string
import time
from collections.abc import Sequence

import pytest
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests.benchmarks.recording import SimpleRow
from trainers.errors import RewardError, RunError, RunStopped
from trainers.recipes.context import Score, ScoredInput
from trainers.recipes.run import run_recipe

METRICS = {
    *("reward", "reward_std", "accuracy", "loss", "kl", "entropy", "clip_fraction", "ratio", "logprob_mismatch"),
    *("grad_norm", "learning_rate", "zero_variance_groups"),
    *("completion_tokens", "completion_tokens_max", "truncated", "prompt_tokens", "pass_at_k"),
}


class ShareOfLetters:
    """Reward: the share of the completion that is lower-case letters."""

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        scores = []
        for row in rows:
            letters = sum(character in string.ascii_lowercase for character in row.completion)
            share = letters / max(1, len(row.completion))
            scores.append(Score(share, {"share": share, "constant": 1.0}, share > 0.5))
        return scores


def rows(count: int = 8) -> list[SimpleRow]:
    return [SimpleRow([{"role": "user", "content": f"question {i}"}], str(i), row={"i": i}) for i in range(count)]


def run(context, tiny_folder, *, train=None, held_out=None, scorer=None):
    return run_recipe(
        context,
        model_path=tiny_folder,
        train_rows=rows() if train is None else train,
        eval_rows=rows(4) if held_out is None else held_out,
        scorer=scorer or ShareOfLetters(),
        threads=1,
    )


def comparable(context) -> list[dict]:
    """Events without what depends on the clock."""
    events = []
    for event in context.events:
        if event["kind"] == "progress":
            continue
        event = {key: value for key, value in event.items() if key not in ("active_s", "age_s", "uri")}
        if event["kind"] == "log":
            event["text"] = re.sub(r" stored in [\d.]+ s;", " stored;", event["text"])
        if event["kind"] == "metric":
            event["values"] = {k: v for k, v in event["values"].items() if not k.startswith("system/")}
        events.append(event)
    return events


@pytest.mark.parametrize("loss", ["ppo", "importance_sampling", "cispo", "dro", "gspo"])
def test_every_policy_loss_learns_what_is_rewarded(make_context, tiny_folder, loss):
    context = make_context(
        loss={"name": loss}, hyperparameters={"steps": 12, "learning_rate": 0.03}, sampling={"group_size": 12}
    )
    result = run(context, tiny_folder)
    assert result["before"]["reward"] < 0.35
    assert result["after"]["reward"] > result["before"]["reward"] + 0.3


def test_it_reports_every_figure_rollout_and_checkpoint(make_context, tiny_folder):
    context = make_context(checkpointing={"every_steps": 3})
    result = run(context, tiny_folder)
    steps = [event for event in context.of("metric") if "train/reward" in event["values"]]
    assert [event["step"] for event in steps] == [1, 2, 3, 4]
    names = {key.removeprefix("train/") for event in steps for key in event["values"] if key.startswith("train/")}
    assert names == METRICS
    assert all(event["values"]["reward/constant"] == 1.0 and "reward/share" in event["values"] for event in steps)
    assert all(event["values"]["system/memory_peak_gb"] >= event["values"]["system/memory_gb"] > 0 for event in steps)
    assert all(0 < event["values"]["system/mfu"] < 1 and event["values"]["reward_std/constant"] == 0 for event in steps)
    assert all(event["values"]["train/logprob_mismatch"] < 1e-4 for event in steps)
    evaluations = [event for event in context.of("metric") if "eval/accuracy" in event["values"]]
    assert [event["step"] for event in evaluations] == [0, 2, 4]
    rollouts = context.of("rollout")
    assert sum(event["phase"] == "train" for event in rollouts) == 4 * 4 * 4
    assert sum(event["phase"] == "before" and event["greedy"] for event in rollouts) == 4
    assert sum(event["phase"] == "after" and not event["greedy"] for event in rollouts) == 8
    first = rollouts[-1]
    assert first["prompt"].startswith("question") and first["parts"].keys() == {"share", "constant"}
    tokens = [event["tokens"] for event in context.of("metric")]
    assert tokens == sorted(tokens) and result["tokens"] == tokens[-1]
    assert result.keys() == {"before", "after", "steps", "tokens", "train_seconds", "eval_prompts"}
    assert result["before"].keys() == {"accuracy", "reward", "accuracy_greedy", "samples"}
    assert result["before"]["samples"] == 8


def test_checkpoints_are_published_and_the_final_one_loads_in_peft(make_context, tiny_folder):
    context = make_context(checkpointing={"every_steps": 3})
    run(context, tiny_folder)
    automatic, final = context.of("checkpoint")
    assert (automatic["step"], automatic["final"], automatic["name"]) == (3, False, "step-000003")
    assert (final["step"], final["final"], final["format"]) == (4, True, "peft")
    assert {file["name"] for file in final["files"]} == {"adapter_config.json", "adapter_model.safetensors"}
    assert "state/policy/optimizer.safetensors" in {file["name"] for file in automatic["files"]}
    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    PeftModel.from_pretrained(base, context.scratch / "published" / "final")
    assert not list((context.scratch / "checkpoints").iterdir())


def test_the_same_seed_gives_the_same_bits(make_context, tiny_folder):
    contexts = [make_context(), make_context(), make_context(seed=4)]
    for context in contexts:
        run(context, tiny_folder)
    one, again, other = (comparable(context) for context in contexts)
    assert one == again  # the hashes of the adapter's files are among it
    assert one != other


def test_groups_without_a_difference_are_counted_and_change_nothing(make_context, tiny_folder):
    class Same:
        def score(self, given):
            return [Score(1.0, {}, True) for _ in given]

    context = make_context()
    run(context, tiny_folder, scorer=Same())
    assert context.values("train/zero_variance_groups") == [4.0] * 4
    assert context.values("train/grad_norm") == [0.0] * 4
    assert context.values("eval/accuracy") == [1.0] * 3


def test_the_kl_penalty_holds_the_policy_near_the_base(make_context, tiny_folder):
    distances = []
    for coefficient in (0.0, 5.0):
        context = make_context(
            loss={"kl_coefficient": coefficient}, hyperparameters={"steps": 12, "learning_rate": 0.02}
        )
        run(context, tiny_folder)
        distances.append(context.values("train/kl")[-1])
    assert distances[1] < distances[0] / 2


def test_several_updates_per_batch_move_the_ratio(make_context, tiny_folder):
    context = make_context(hyperparameters={"updates_per_batch": 3, "steps": 2}, evaluation={"prompts": 0})
    result = run(context, tiny_folder)
    assert any(abs(ratio - 1) > 1e-3 for ratio in context.values("train/ratio"))
    assert result["before"] is None and result["after"] is None and result["eval_prompts"] == 0


def test_without_steps_it_makes_one_pass_over_the_rows(make_context, tiny_folder):
    context = make_context(hyperparameters={"steps": None, "batch_size": 3}, evaluation={"prompts": 0})
    assert run(context, tiny_folder)["steps"] == 3
    prompts = [event["prompt"] for event in context.of("rollout")]
    assert set(prompts[: 8 * 4]) == {f"question {i}" for i in range(8)}


def test_long_prompts_are_left_out_and_counted(make_context, tiny_folder):
    context = make_context(hyperparameters={"max_prompt_tokens": 60}, evaluation={"prompts": 0})
    long = SimpleRow([{"role": "user", "content": "x" * 200}], "x")
    run(context, tiny_folder, train=[*rows(), long])
    assert any(event["text"].startswith("1 of 9 training prompts are longer than 60") for event in context.of("log"))


def test_no_prompt_left_is_a_named_error(make_context, tiny_folder):
    context = make_context(hyperparameters={"max_prompt_tokens": 8})
    with pytest.raises(RunError) as caught:
        run(context, tiny_folder)
    assert caught.value.kind == "bad_data" and caught.value.field == "hyperparameters.max_prompt_tokens"


@pytest.mark.parametrize("count", [0, 1])
def test_a_reward_that_gives_the_wrong_count_is_a_named_error(make_context, tiny_folder, count):
    class Short:
        def score(self, given):
            return [Score(1.0, {}, True)] * count

    with pytest.raises(RewardError, match=f"gave {count} scores for 8"):
        run(make_context(), tiny_folder, scorer=Short())


def test_a_reward_that_is_not_finite_is_a_named_error(make_context, tiny_folder):
    class Odd:
        def score(self, given):
            return [Score(math.nan, {}, False) for _ in given]

    with pytest.raises(RewardError, match="nan"):
        run(make_context(), tiny_folder, scorer=Odd())


@pytest.mark.parametrize("after", [1, 40, 150])
def test_it_stops_soon_after_it_is_asked_to(make_context, tiny_folder, monkeypatch, after):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    asked = []

    def stop() -> bool:
        asked.append(time.monotonic())
        return len(asked) > after

    context = make_context(stop=stop, hyperparameters={"steps": 1000})
    with pytest.raises(RunStopped):
        run(context, tiny_folder)
    assert len(asked) == after + 1
    assert not context.of("checkpoint")


def test_progress_is_told_often_and_only_forward(make_context, tiny_folder, monkeypatch):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    monkeypatch.setattr("trainers.recipes.progress._EMIT_EVERY_S", 0.0)
    context = make_context()
    run(context, tiny_folder)
    told = context.of("progress")
    assert {event["phase"] for event in told} == {"loading", "evaluating", "sampling", "training", "exporting"}
    fractions = [event["fraction"] for event in told]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and told[-1]["eta_s"] == 0.0
    assert told[0]["eta_s"] is None and all(event["eta_s"] is not None for event in told[len(told) // 2 :])
    assert len(told) > 50


def test_many_evaluation_rollouts_are_listed_in_part(make_context, tiny_folder, monkeypatch):
    monkeypatch.setattr("trainers.recipes.evaluate.SHOWN", 5)
    context = make_context(hyperparameters={"steps": 1})
    run(context, tiny_folder)
    before = [event for event in context.of("rollout") if event["phase"] == "before" and not event["greedy"]]
    assert len(before) == 4
    assert any("4 of 8 completions" in event["text"] for event in context.of("log"))
