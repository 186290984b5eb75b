"""The memory of a task by its formula."""

from __future__ import annotations

import pytest

from trainers.memory import Shape, memory_of
from trainers.spec import parse_spec

SMOLLM2 = Shape.of_config(
    {
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "num_hidden_layers": 30,
        "intermediate_size": 1536,
        "vocab_size": 49152,
    },
    134_515_008,
)


def task(recipe="grpo", **sections):
    spec = {"recipe": recipe, "data": {"source": "x"}} | sections
    if recipe == "grpo":
        spec["reward"] = {"components": [{"kind": "numeric"}]}
    return parse_spec(spec)


def test_an_adapter_is_counted_matrix_by_matrix():
    found = memory_of(task(model={"adapter": {"rank": 16}}), SMOLLM2, prompt_tokens=50)
    attention = 2 * (576 + 576) + 2 * (576 + 192)
    assert found.adapter == 4 * 16 * 30 * (attention + 3 * (576 + 1536))
    assert found.optimizer == 3 * found.adapter
    assert found.weights == 4 * 134_515_008


def test_all_weights_need_a_gradient_and_two_moments_each():
    found = memory_of(task("sft", model={"adapter": {"kind": "full"}}), SMOLLM2, prompt_tokens=50)
    assert found.adapter == 0 and found.optimizer == 12 * 134_515_008 and found.cache == 0


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": {"max_new_tokens": 4000}},
        {"hyperparameters": {"batch_size": 4096}},
        {"model": {"adapter": {"rank": 256}}},
    ],
)
def test_more_work_needs_more(more):
    assert memory_of(task(**more), SMOLLM2, prompt_tokens=50).total > memory_of(task(), SMOLLM2, prompt_tokens=50).total


def test_a_configuration_without_its_numbers_is_no_shape():
    with pytest.raises(KeyError):
        Shape.of_config({"hidden_size": 8, "num_attention_heads": 2}, 100)
