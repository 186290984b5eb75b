"""The switches of grpo, each by its formula in plain numbers, and by what it does to a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from tests.benchmarks.recording import SimpleRow
from trainers.engine.sampler import Completion
from trainers.recipes.advantages import generalized_advantages, group_advantages
from trainers.recipes.context import Score, ScoredInput
from trainers.recipes.grpo import GrpoRun
from trainers.recipes.policy_data import Sample, token_weights
from trainers.recipes.rollouts import Prompt, Rollout, Rollouts, rollouts_from_json, rollouts_to_json
from trainers.recipes.run import run_recipe
from trainers.recipes.shaping import overlong_penalty, summed_log_ratio

ROWS = [SimpleRow([{"role": "user", "content": f"question {i}"}], str(i), row={"i": i}) for i in range(8)]


def rollout(count: int, reward: float = 0.0, *, stopped: bool = True, logprob: float = -1.0, mask=None) -> Rollout:
    completion = Completion(list(range(count)), [logprob] * count, [0.5] * count, stopped)
    return Rollout(Prompt(ROWS[0], [7, 8], "q"), completion, "", Score(reward, {}, reward > 0), mask)


class Letters:
    """Reward: the share of lower-case letters, or a value per question."""

    def __init__(self, by_question: dict[str, float] | None = None) -> None:
        self.by_question, self.asked = by_question or {}, 0

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        self.asked += len(rows)
        values = [
            self.by_question.get(row.prompt, sum(c.islower() for c in row.completion) / max(1, len(row.completion)))
            for row in rows
        ]
        return [Score(value, {"v": value}, value > 0.5) for value in values]


def run(context, folder, scorer=None):
    return run_recipe(context, model_path=folder, train_rows=ROWS, eval_rows=(), scorer=scorer or Letters(), threads=1)


def context_of(make_context, **sections):
    return make_context(evaluation={"prompts": 0}, **sections)


def test_leave_one_out_compares_with_the_mean_of_the_others():
    rewards = [1.0, 0.0, 0.5, 0.25]
    expected = [r - (sum(rewards) - r) / 3 for r in rewards]
    assert group_advantages(rewards, "leave_one_out") == pytest.approx(expected, abs=1e-12)
    assert group_advantages([0.3] * 4, "leave_one_out") == [0.0] * 4


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("token", [1 / 12] * 3),
        ("sequence", [1 / (3 * 2), 1 / (3 * 4), 1 / (3 * 6)]),
        ("constant", [1 / (3 * 50)] * 3),
    ],
)
def test_the_loss_is_averaged_as_its_formula_says(kind, expected):
    assert token_weights([rollout(2), rollout(4), rollout(6)], kind, 50) == pytest.approx(expected, rel=1e-12)


def test_tokens_of_an_environment_do_not_count_as_length():
    assert token_weights([rollout(4, mask=(True, False, False, True))], "sequence", 50) == [1 / 2]


@pytest.mark.parametrize(
    ("length", "penalty"), [(10, 0.0), (80, 0.0), (85, -0.25 * 2), (90, -0.5 * 2), (100, -2.0), (150, -2.0)]
)
def test_the_overlong_penalty_falls_in_a_line(length, penalty):
    assert overlong_penalty(length, 100, 20, 2.0) == pytest.approx(penalty, abs=1e-12)
    assert overlong_penalty(length, 100, 0, 2.0) == 0.0


def test_the_divergence_in_the_reward_sums_over_the_models_own_tokens():
    assert summed_log_ratio([-1.0, -5.0, -2.0], [-1.5, 0.0, -1.0], [1, 0, 1]) == pytest.approx(0.5 - 1.0)


def test_the_importance_weight_is_cut_at_the_cap_and_ratios_start_from_the_current_policy():
    sample = Sample(rollout(3, logprob=-1.0), [1.0] * 3, proximal=[-1.0, -0.5, 2.0])
    datum = sample.datum(0.1, 2.0)
    assert datum.arrays["token_weights"] == pytest.approx([0.1, 0.1 * math.exp(0.5), 0.1 * 2.0])
    assert datum.arrays["logprobs"] == [-1.0, -0.5, 2.0]
    assert sample.datum(0.1, None).arrays["logprobs"] == [-1.0] * 3


def test_generalized_advantages_equal_their_sum():
    rewards, values, discount, share = [0.0, 1.0, -0.5, 2.0], [0.3, -0.2, 0.4, 0.1], 0.9, 0.7
    deltas = [r + discount * v_next - v for r, v, v_next in zip(rewards, values, [*values[1:], 0.0], strict=True)]
    expected = [
        sum((discount * share) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))
    ]
    advantages, returns = generalized_advantages(rewards, values, discount=discount, gae_lambda=share)
    assert advantages == pytest.approx(expected, abs=1e-12)
    assert returns == pytest.approx([a + v for a, v in zip(expected, values, strict=True)], abs=1e-12)


def test_without_a_critic_and_decay_the_advantage_is_the_reward_still_to_come():
    advantages, _ = generalized_advantages([1.0, 2.0, 3.0], [0.0] * 3, discount=1.0, gae_lambda=1.0)
    assert advantages == [6.0, 5.0, 3.0]


def test_rollouts_survive_json_to_the_bit():
    given = Rollouts([[rollout(2, 0.1 + 0.2, logprob=-1 / 3), rollout(1, mask=(True,), stopped=False)]], 1.0, 2.0, 5)
    assert rollouts_from_json(rollouts_to_json(given), [given.groups[0][0].prompt]) == given


def test_dynamic_sampling_draws_further_prompts_until_the_batch_is_mixed(make_context, tiny_folder):
    equal = {f"question {i}": 1.0 for i in (0, 1, 2)}
    scorer = Letters(equal)
    context = context_of(
        make_context,
        data={"shuffle": False},
        hyperparameters={"steps": 1, "batch_size": 4},
        sampling={"dynamic_rounds": 3},
    )
    run(context, tiny_folder, scorer)
    prompts = [event["prompt"] for event in context.of("rollout") if event["index"] == 0]
    assert not set(prompts) & set(equal) and len(prompts) == 4
    assert context.values("train/zero_variance_groups") == [0.0]
    assert context.values("train/prompts_drawn") == [7.0] and scorer.asked == 7 * 4


def test_dynamic_sampling_gives_up_after_its_rounds(make_context, tiny_folder):
    context = context_of(make_context, hyperparameters={"steps": 1, "batch_size": 2}, sampling={"dynamic_rounds": 2})
    run(context, tiny_folder, Letters({f"question {i}": 1.0 for i in range(8)}))
    assert context.values("train/prompts_drawn") == [6.0]
    assert context.values("train/zero_variance_groups") == [2.0]


def test_truncated_completions_are_not_trained_when_masked(make_context, tiny_folder):
    masked = context_of(
        make_context, hyperparameters={"steps": 1}, sampling={"mask_truncated": True, "max_new_tokens": 1}
    )
    run(masked, tiny_folder)
    cut = sum(event["truncated"] for event in masked.of("rollout"))
    assert cut == len(masked.of("rollout")) and masked.values("train/grad_norm") == [0.0]


def test_the_overlong_penalty_lowers_the_reward_that_is_learned_from(make_context, tiny_folder):
    context = context_of(
        make_context,
        hyperparameters={"steps": 1},
        sampling={"overlong_tokens": 3, "max_new_tokens": 6, "overlong_penalty": 0.5},
    )
    run(context, tiny_folder, Letters({f"question {i}": 1.0 for i in range(8)}))
    lengths = [event["tokens"] for event in context.of("rollout")]
    expected = 1.0 - sum(0.5 * max(0, length - 3) / 3 for length in lengths) / len(lengths)
    assert context.values("train/reward_shaped")[0] == pytest.approx(expected, rel=1e-9)
    assert context.values("train/reward") == [1.0]


def test_minibatches_and_passes_each_make_an_optimizer_step(make_context, tiny_folder, monkeypatch):
    steps = []
    monkeypatch.setattr(
        "trainers.engine.engine.Engine.optim_step", lambda *given: steps.append(1) or {"grad_norm": 1.0}
    )
    context = context_of(
        make_context, hyperparameters={"steps": 2, "batch_size": 4, "minibatches": 2, "updates_per_batch": 3}
    )
    run(context, tiny_folder)
    assert len(steps) == 2 * 2 * 3


def test_each_minibatch_holds_whole_groups_and_every_sample_once(make_context, tiny_folder, monkeypatch):
    seen = []
    original = GrpoRun._parts

    def parts(self, step, again, samples):
        result = original(self, step, again, samples)
        seen.append((len(samples), result))
        return result

    monkeypatch.setattr(GrpoRun, "_parts", parts)
    run(context_of(make_context, hyperparameters={"steps": 1, "batch_size": 4, "minibatches": 3}), tiny_folder)
    ((count, cut),) = seen
    assert len(cut) == 3 and sum(len(part) for part in cut) == count
    groups = [{id(sample.rollout.prompt) for sample in part} for part in cut]
    assert all(not one & other for i, one in enumerate(groups) for other in groups[i + 1 :])


def test_one_step_off_policy_trains_on_what_the_policy_before_said(make_context, tiny_folder):
    """The second batch is what the untrained model would say, whatever the first step taught."""
    rates = [0.05, 1e-12]
    said = []
    for rate in rates:
        context = context_of(
            make_context, hyperparameters={"steps": 3, "learning_rate": rate}, sampling={"one_step_off_policy": True}
        )
        run(context, tiny_folder)
        said.append([[e["completion"] for e in context.of("rollout") if e["step"] == step] for step in (1, 2, 3)])
    taught, untaught = said
    assert taught[0] == untaught[0] and taught[1] == untaught[1]
    assert taught[2] != untaught[2]


def test_the_importance_cap_starts_ratios_at_one_though_the_batch_is_old(make_context, tiny_folder):
    mismatches = []
    for loss in ({}, {"importance_cap": 2.0}):
        context = context_of(
            make_context,
            hyperparameters={"steps": 3, "learning_rate": 0.05},
            sampling={"one_step_off_policy": True},
            loss=loss,
        )
        run(context, tiny_folder)
        mismatches.append(context.values("train/logprob_mismatch"))
    assert mismatches[0][1] > 1e-2 and max(mismatches[1]) < 1e-4


def test_a_kl_penalty_in_the_reward_holds_the_policy_near_the_base(make_context, tiny_folder):
    distances = []
    for coefficient in (0.0, 2.0):
        context = context_of(
            make_context,
            loss={"kl_coefficient": coefficient, "kl_in": "reward"},
            hyperparameters={"steps": 10, "learning_rate": 0.02},
            sampling={"group_size": 8},
        )
        run(context, tiny_folder)
        distances.append(context.values("train/kl")[-1])
    assert distances[1] < distances[0] / 2


@pytest.mark.parametrize("kind", ["sequence", "constant"])
def test_every_average_learns(make_context, tiny_folder, kind):
    context = context_of(
        make_context,
        hyperparameters={"steps": 10, "learning_rate": 0.03, "normalization": kind, "advantage": "leave_one_out"},
        sampling={"group_size": 12},
    )
    run(context, tiny_folder)
    rewards = context.values("train/reward")
    assert rewards[-1] > rewards[0] + 0.2


def test_a_loss_of_ones_own_trains_as_the_built_in_one_it_spells_out(make_context, tiny_folder):
    hashes = []
    for loss in (
        {"name": "ppo"},
        {
            "name": "custom",
            "expression": "-minimum(ratio * advantages, clamp(ratio, clip_low, clip_high) * advantages)",
        },
    ):
        context = context_of(make_context, loss=loss)
        run(context, tiny_folder)
        hashes.append(torch.tensor(context.values("train/loss")))
    torch.testing.assert_close(hashes[0], hashes[1], rtol=1e-4, atol=1e-6)
