from __future__ import annotations

import pickle

import pytest

from trainers.errors import RewardError, RunError
from trainers.recipes.advantages import group_advantages
from trainers.recipes.context import prompt_text
from trainers.recipes.schedule import derived_seed, draw_rows, learning_rate, total_steps
from trainers.spec import Hyperparameters


def test_every_row_comes_once_per_pass_in_an_order_of_its_own():
    drawn = [row for step in range(8) for row in draw_rows(5 * step, 5, 10, seed=1, shuffle=True)]
    passes = [drawn[i : i + 10] for i in range(0, 40, 10)]
    assert all(sorted(one) == list(range(10)) for one in passes)
    assert passes[0] != passes[1]


def test_a_batch_depends_on_the_cursor_alone():
    whole = draw_rows(0, 48, 10, seed=1, shuffle=True)
    assert draw_rows(36, 6, 10, seed=1, shuffle=True) == whole[36:42]
    assert draw_rows(0, 4, 10, seed=1, shuffle=False) == [0, 1, 2, 3]
    assert draw_rows(0, 25, 10, seed=1, shuffle=False) == [*range(10), *range(10), *range(5)]


def test_the_learning_rate_warms_up_and_falls():
    def rates(schedule: str) -> list[float]:
        settings = Hyperparameters(learning_rate=1.0, warmup_steps=2, schedule=schedule)
        return [learning_rate(settings, step, 6) for step in range(1, 7)]

    assert rates("constant") == [0.5, 1, 1, 1, 1, 1]
    assert rates("linear") == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert rates("cosine")[2:] == pytest.approx([1, 0.85355, 0.5, 0.14645], abs=1e-4)


def test_steps_default_to_one_pass():
    assert total_steps(Hyperparameters(batch_size=4), 9) == 3
    assert total_steps(Hyperparameters(batch_size=4, steps=7), 9) == 7


def test_seeds_differ_by_purpose_and_step():
    seeds = {derived_seed(seed, purpose, step) for seed in (0, 2**62) for purpose in ("a", "b") for step in range(50)}
    assert len(seeds) == 200 and all(0 <= seed < 2**63 for seed in seeds)


def test_advantages_are_relative_to_the_group():
    assert group_advantages([1, 0, 0, 1], "mean") == [0.5, -0.5, -0.5, 0.5]
    assert group_advantages([1, 0, 0, 1], "mean_std") == [1, -1, -1, 1]
    assert group_advantages([0.1] * 5, "mean_std") == [0] * 5


def test_a_prompt_reads_as_its_question_or_as_a_conversation():
    system = {"role": "system", "content": "s"}
    assert prompt_text([system, {"role": "user", "content": "q"}]) == "q"
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert prompt_text([system, *turns]) == "user: a\n\nassistant: b\n\nuser: c"


@pytest.mark.parametrize("error", [RunError("storage", "m", "a", "f"), RewardError("m", "a")])
def test_run_errors_survive_the_way_between_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.as_dict() == error.as_dict()
