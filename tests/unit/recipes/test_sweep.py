"""A sweep becomes a family of tasks by a pure function."""

from __future__ import annotations

from decimal import Decimal

import pytest

from trainers.spec import SpecError
from trainers.sweep import expand, next_rung, parse_sweep, rungs

TASK = {"recipe": "sft", "name": "base", "data": {"source": "dataset:x@1"}, "model": {"adapter": {"rank": 4}}}
RATE = "hyperparameters.learning_rate"


def sweep(**parts):
    return parse_sweep({"task": TASK, "fields": {RATE: {"values": [1e-4, 1e-3]}}} | parts)


def test_a_grid_has_every_combination_and_shares_one_budget():
    found = expand(
        sweep(
            fields={RATE: {"values": [1e-4, 1e-3]}, "model.adapter.rank": {"values": [8, 16, 8]}},
            budget={"amount": "1.00", "minutes": 60},
        )
    )
    assert [(t.hyperparameters.learning_rate, t.model.adapter.rank) for t in found] == [
        (1e-4, 8), (1e-4, 16), (1e-3, 8), (1e-3, 16),
    ]  # fmt: skip
    assert all(task.budget.amount == Decimal("0.25") and task.budget.minutes == 15 for task in found)
    assert found[0].name == "base · learning_rate 0.0001, rank 8" and TASK["model"] == {"adapter": {"rank": 4}}


def test_random_draws_are_within_their_range_and_the_same_for_the_same_seed():
    fields = {
        RATE: {"minimum": 1e-5, "maximum": 1e-2, "log": True},
        "model.adapter.rank": {"minimum": 4, "maximum": 32, "whole": True},
    }
    one, again, other = (expand(sweep(method="random", fields=fields, members=40, seed=seed)) for seed in (1, 1, 2))
    assert one == again != other and len(one) == 40
    rates = [task.hyperparameters.learning_rate for task in one]
    assert all(1e-5 <= rate <= 1e-2 for rate in rates)
    assert 10 < sum(rate < 3e-4 for rate in rates) < 30, "evenly on a logarithmic scale"
    assert {type(task.model.adapter.rank) for task in one} == {int}


def test_halving_lets_the_best_go_on_with_more_steps():
    fields = {RATE: {"minimum": 1e-5, "maximum": 1e-2, "log": True}}
    whole = sweep(method="halving", fields=fields, members=9, first_steps=10, budget={"minutes": 130})
    assert rungs(whole) == [(9, 10), (3, 30), (1, 90)]
    first = expand(whole)
    assert all(task.hyperparameters.steps == 10 and task.budget.minutes == 10 for task in first)
    results = [0.1, 0.9, None, 0.3, float("nan"), 0.9, 0.2, 0.8, 0.0]
    second = next_rung(whole, first, results)
    assert [task.name for task in second] == [first[i].name for i in (1, 5, 7)]
    assert {task.hyperparameters.steps for task in second} == {30}
    (last,) = next_rung(whole, second, [1.0, 2.0, 3.0])
    assert last.name == first[7].name and next_rung(whole, [last], [1.0]) == []
    lower = whole.model_copy(update={"higher_is_better": False})
    assert next_rung(lower, first, results)[0].name == first[0].name
    assert next_rung(whole, first, [None] * 9) == []


@pytest.mark.parametrize(
    ("parts", "path", "words"),
    [
        ({"fields": {}}, "fields", "at least 1"),
        ({"fields": {"name": {"values": ["a"]}}}, "fields.name", "in common"),
        ({"fields": {"evaluation.prompts": {"values": [1]}}}, "fields.evaluation.prompts", "in common"),
        ({"fields": {RATE: {"minimum": 0.1, "maximum": 1}}}, f"fields.{RATE}", "a grid needs values"),
        (
            {"method": "random", "fields": {RATE: {"minimum": 1, "maximum": 0.1}}},
            f"fields.{RATE}",
            "above minimum",
        ),
        ({"method": "random", "fields": {RATE: {}}}, f"fields.{RATE}", "give values, or a range"),
        ({"fields": {RATE: {"values": [1], "minimum": 1}}}, f"fields.{RATE}", "give either"),
        (
            {"method": "halving", "fields": {"hyperparameters.steps": {"values": [1]}}},
            "fields.hyperparameters.steps",
            "set by the rungs",
        ),
        (
            {"fields": {RATE: {"values": list(range(20))}, "seed": {"values": list(range(20))}}},
            "fields",
            "400 combinations",
        ),
    ],
)
def test_a_sweep_that_cannot_be_run_is_refused_by_its_field(parts, path, words):
    with pytest.raises(SpecError) as caught:
        sweep(**parts)
    assert any(found == path and words in message for found, message in caught.value.errors), caught.value.errors


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model.adapter.rank": {"values": [0]}}, "model.adapter.rank"),
        ({"hyperparameters.lr": {"values": [1]}}, "hyperparameters.lr"),
        ({"seed.x": {"values": [1]}}, "seed"),
    ],
)
def test_a_member_that_is_no_task_is_refused_by_its_field(fields, path):
    with pytest.raises(SpecError) as caught:
        expand(sweep(fields=fields))
    assert path in str(caught.value)
