"""From RLTask to the task spec."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from trainers.spec import parse_spec
from tuneyard import RLTask, TaskError

REGISTERED = "dataset:6f1b9ed2-8b2b-4d83-9d6e-0e9f4c4d7a11@1"
LIMIT = 50


def reward(prompt, completion, answer, row):
    return 1.0 if completion.strip() == answer else 0.0


def shorter_is_better(completion: str, limit: int = 20) -> float:
    numbers = re.findall(r"\d+", completion)
    return min(1.0, limit / max(len(completion), 1)) if len(numbers) < LIMIT else 0.0


def test_the_mission_s_task_is_supervised_training_with_its_rate_and_batch():
    task = RLTask(
        env_config={"dataset_path": "math_problems.json"},
        loss_fn="cross_entropy",
        hyperparams={"lr": 0.001, "batch_size": 64},
    )
    spec = task.to_spec()
    assert spec == {
        "version": 1,
        "name": "math_problems sft",
        "recipe": "sft",
        "data": {"source": "math_problems.json"},
        "loss": {"name": "cross_entropy"},
        "hyperparameters": {"learning_rate": 0.001, "batch_size": 64},
    }
    checked = parse_spec(spec)
    assert (checked.recipe, checked.hyperparameters.learning_rate) == ("sft", 0.001)


def test_the_same_with_a_reward_and_ppo_is_reinforcement_learning():
    task = RLTask(
        env_config={"dataset_path": "math_problems.json", "max_new_tokens": 32, "answer_column": "result"},
        loss_fn="ppo",
        hyperparams={"lr": 0.001, "batch_size": 64, "group_size": 4, "temperature": 0.9},
        reward="numeric",
    )
    checked = parse_spec(task.to_spec())
    assert (checked.recipe, checked.loss.name) == ("grpo", "ppo")
    assert checked.reward.names == ["numeric"]
    assert (checked.sampling.group_size, checked.sampling.max_new_tokens, checked.sampling.temperature) == (4, 32, 0.9)
    assert checked.data.columns.answer == "result"


@pytest.mark.parametrize(
    ("arguments", "loss", "recipe"),
    [
        ({}, "cross_entropy", "sft"),
        ({"reward": "exact"}, "ppo", "grpo"),
        ({"reward": "exact", "loss_fn": "cispo"}, "cispo", "grpo"),
        ({"reward": "exact", "recipe": "grpo"}, "ppo", "grpo"),
        ({"recipe": "sft"}, "cross_entropy", "sft"),
        ({"reward": "exact", "loss_fn": {"name": "gspo", "clip_high": 1.3}}, "gspo", "grpo"),
    ],
)
def test_recipe_and_loss_follow_from_each_other(arguments, loss, recipe):
    spec = RLTask({"dataset_path": REGISTERED}, **arguments).to_spec()
    assert (spec["loss"]["name"], spec["recipe"]) == (loss, recipe)
    parse_spec(spec)


def test_every_part_of_a_task_lands_where_the_server_looks_for_it():
    task = RLTask(
        env_config={
            "dataset": REGISTERED,
            "columns": {"prompt": "question"},
            "system_prompt": "Be brief.",
            "limit": 100,
        },
        loss_fn={"name": "ppo", "clip_low": 0.7},
        hyperparams={"lora_rank": 8, "kl_coef": 0.01, "warmup_steps": 2, "steps": 10, "max_grad_norm": 0.5},
        reward=[{"kind": "numeric", "weight": 2}, {"kind": "length", "maximum": 80}],
        model={"base": "smollm2-135m-instruct", "dtype": "float32"},
        name="Sums",
        evaluation={"prompts": 16, "every_steps": 5},
        resources={"tier": "spot", "cpus": 2},
        budget={"amount": Decimal("2.50"), "minutes": 30},
        checkpointing={"every_steps": 5},
        seed=7,
    )
    checked = parse_spec(task.to_spec())
    assert checked.name == "Sums"
    assert checked.data.columns.prompt == "question"
    assert checked.data.limit == 100
    assert (checked.loss.clip_low, checked.loss.kl_coefficient) == (0.7, 0.01)
    assert checked.model.adapter.rank == 8
    assert [component.weight for component in checked.reward.components] == [2, 1]
    assert (checked.evaluation.prompts, checked.evaluation.every_steps) == (16, 5)
    assert (checked.resources.tier, checked.resources.device, checked.resources.devices) == ("spot", "cpu", 2)
    assert (checked.budget.amount, checked.budget.minutes) == (Decimal("2.50"), 30)
    assert checked.checkpointing.every_steps == 5
    assert checked.seed == 7
    assert checked.hyperparameters.grad_clip_norm == 0.5


def test_array_scalars_paths_and_decimals_become_plain_json(tmp_path):
    task = RLTask({"dataset_path": tmp_path / "rows.json"}, hyperparams={"lr": np.float32(0.5), "steps": np.int64(3)})
    spec = task.to_spec()
    assert spec["hyperparameters"] == {"learning_rate": 0.5, "steps": 3}
    assert spec["data"]["source"] == str(tmp_path / "rows.json")


@pytest.mark.parametrize(
    ("arguments", "field", "hint"),
    [
        ({"hyperparams": {"learning_rat": 1}}, "hyperparams.learning_rat", "did you mean 'learning_rate'?"),
        ({"hyperparams": {"batchsize": 1}}, "hyperparams.batchsize", "did you mean 'batch_size'?"),
        ({"hyperparams": {"zzz": 1}}, "hyperparams.zzz", "Known are: learning_rate, lr"),
        ({"env_config": {"dataset_pth": "a.json"}}, "env_config.dataset_pth", "did you mean 'dataset_path'?"),
        ({"env_config": {}}, "env_config.dataset_path", "is missing"),
        ({"loss_fn": "cross_entropi"}, "loss_fn.cross_entropi", "did you mean 'cross_entropy'?"),
        ({"loss_fn": "ppo"}, "reward", "pass one"),
        ({"loss_fn": "ppo", "recipe": "sft", "reward": "exact"}, "loss_fn", "does not belong"),
        ({"recipe": "magic"}, "recipe.magic", "Known are: sft, grpo"),
        ({"reward": "numeri"}, "reward.numeri", "did you mean 'numeric'?"),
        ({"reward": "length"}, "reward", "needs a maximum"),
        ({"reward": []}, "reward", "at least one"),
        ({"reward": 3}, "reward", "is no reward"),
        ({"reward": {"weight": 1}}, "reward", "needs a 'kind'"),
        ({"reward": lambda completion: 1.0}, "reward", "lambda"),
        ({"hyperparams": {"lr": float("nan")}}, "hyperparams.lr", "not a usable number"),
        ({"hyperparams": {"lr": object()}}, "hyperparams.lr", "cannot be sent"),
        ({"hyperparams": {"lr": 1, "learning_rate": 2}}, "hyperparams.learning_rate", "already given"),
        ({"hyperparams": {"epochs": 2, "steps": 3}}, "hyperparams.epochs", "either"),
        ({"hyperparams": {"epochs": 0}}, "hyperparams.epochs", "above 0"),
        ({"hyperparams": ["lr"]}, "hyperparams", "must be a dict"),
    ],
)
def test_it_refuses_what_it_does_not_know_with_field_and_way_out(arguments, field, hint):
    arguments = {"env_config": {"dataset_path": "rows.json"}, **arguments}
    with pytest.raises(TaskError) as caught:
        RLTask(**arguments)
    assert caught.value.field == field
    assert hint in str(caught.value)


def test_a_change_after_making_the_task_is_seen_and_checked():
    task = RLTask({"dataset_path": "rows.json"})
    task.hyperparams = {"lr": 0.5}
    assert task.to_spec()["hyperparameters"] == {"learning_rate": 0.5}
    task.hyperparams = {"lrr": 0.5}
    with pytest.raises(TaskError, match="did you mean 'lr'"):
        task.to_spec()


def test_one_epoch_leaves_the_steps_to_the_server():
    assert "hyperparameters" not in RLTask({"dataset_path": "a.json"}, hyperparams={"epochs": 1}).to_spec()


def test_epochs_become_steps_once_the_rows_are_counted():
    task = RLTask({"dataset_path": "a.json"}, hyperparams={"epochs": 3, "batch_size": 10}, evaluation=20)
    with pytest.raises(TaskError, match="steps once the rows are counted"):
        task.to_spec()
    assert task.to_spec(rows=120)["hyperparameters"]["steps"] == 30


def test_a_function_is_sent_as_it_stands():
    component = RLTask({"dataset_path": "a.json"}, reward=reward).to_spec()["reward"]["components"][0]
    scope: dict = {}
    exec(component["code"], scope)
    assert scope["reward"]("", " 4 ", "4", {}) == 1.0
    assert component["name"] == "reward"


def test_a_function_of_another_name_brings_its_imports_and_constants_along():
    spec = RLTask({"dataset_path": "a.json"}, reward=shorter_is_better).to_spec()
    code = spec["reward"]["components"][0]["code"]
    assert "import re" in code
    assert f"LIMIT = {LIMIT}" in code
    scope: dict = {}
    exec(code, scope)
    assert scope["reward"](completion="x" * 40) == 0.5
    assert parse_spec(spec).reward.names == ["shorter_is_better"]


def helper(text: str) -> str:
    return text


def uses_helper(completion):
    return float(len(helper(completion)))


def asks_for_more(completion, weather):
    return 1.0


def sees_nothing():
    return 1.0


async def waits(completion):
    return 1.0


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (uses_helper, "uses 'helper', which is defined outside"),
        (asks_for_more, "asks for 'weather'"),
        (sees_nothing, "could not see anything"),
        (waits, "asynchronous"),
        (len, "write a plain function"),
        (str.strip, "write a plain function"),
    ],
)
def test_it_refuses_a_function_that_would_not_run_elsewhere(function, hint):
    with pytest.raises(TaskError, match=re.escape(hint)):
        RLTask({"dataset_path": "a.json"}, reward=function)


def test_it_refuses_a_function_with_a_closure():
    bound = 3

    def graded(completion):
        return float(bound)

    with pytest.raises(TaskError, match="uses 'bound'"):
        RLTask({"dataset_path": "a.json"}, reward=graded)


def test_it_says_when_the_source_of_a_function_cannot_be_found():
    scope: dict = {}
    exec("def typed(completion):\n    return 1.0", scope)
    with pytest.raises(TaskError, match="source of typed cannot be found"):
        RLTask({"dataset_path": "a.json"}, reward=scope["typed"])


def test_a_registered_reward_is_named_not_copied():
    task = RLTask({"dataset_path": "a.json"}, loss_fn="ppo", reward="reward:6f1b9ed2-8b2b-4d83-9d6e-0e9f4c4d7a11@2")
    assert "reward" not in task.to_spec()
    assert task.registered_reward == "reward:6f1b9ed2-8b2b-4d83-9d6e-0e9f4c4d7a11@2"


def test_a_path_alone_is_enough_of_an_environment():
    assert RLTask(Path("rows.jsonl")).source == "rows.jsonl"


def test_every_dial_of_the_task_leads_to_a_field_the_server_knows():
    from tuneyard import fields

    schema = parse_spec({"recipe": "sft", "data": {"source": REGISTERED}}).model_dump()
    shortcuts = {"epochs", "gpus", "cpus"}
    tables = (
        fields.ENV_CONFIG, fields.HYPERPARAMS, fields.EVALUATION, fields.RESOURCES, fields.BUDGET,
        fields.CHECKPOINTING, fields.LOSS, fields.MODEL,
    )  # fmt: skip
    for path in {path for table in tables for path in table.values()} - shortcuts:
        value = schema
        for part in path.split("."):
            assert part in value, path
            value = value[part]


def test_losses_and_recipes_are_those_of_the_server():
    from trainers.spec import RECIPES
    from tuneyard import fields

    assert {name: recipe.losses for name, recipe in RECIPES.items()} == fields.RECIPES
    assert {name for name, recipe in RECIPES.items() if recipe.reward == "needed"} == set(fields.NEEDS_REWARD)


@pytest.mark.parametrize(
    ("given", "recipe", "loss"),
    [
        ({"loss_fn": "ipo"}, "dpo", "ipo"),
        ({"recipe": "dpo"}, "dpo", "dpo"),
        ({"recipe": "best_of_n", "reward": "numeric"}, "best_of_n", "cross_entropy"),
        ({"recipe": "ppo_critic", "reward": "numeric"}, "ppo_critic", "ppo"),
        ({"recipe": "distill", "hyperparams": {"teacher": "smollm2"}}, "distill", "importance_sampling"),
        ({"loss_fn": {"name": "custom", "expression": "-ratio * advantages"}, "reward": "numeric"}, "grpo", "custom"),
    ],
)
def test_every_recipe_can_be_chosen(given, recipe, loss):
    spec = RLTask({"dataset_path": REGISTERED}, **given).to_spec()
    assert (spec["recipe"], spec["loss"]["name"]) == (recipe, loss)
    assert parse_spec(spec).loss.name == loss


def test_a_task_may_only_measure():
    spec = RLTask({"dataset_path": REGISTERED}, recipe="evaluate", reward="numeric").to_spec()
    assert "loss" not in spec and parse_spec(spec).recipe == "evaluate"


def test_an_environment_needs_neither_data_nor_a_reward():
    spec = RLTask({"kind": "countdown", "max_turns": 3}).to_spec()
    assert spec["data"] == {"source": "environment"} and spec["recipe"] == "grpo"
    assert parse_spec(spec).environment.max_turns == 3
