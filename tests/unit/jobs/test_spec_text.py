"""A task spec as text: written and read again without loss, and refused by line and path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.spec_reading import LONGEST, TextRefused, read_task, read_value
from jobs.spec_writing import yaml_lines, yaml_of
from trainers.presets import PRESETS
from trainers.spec import parse_spec

SPEC = {
    "recipe": "grpo",
    "data": {"source": "dataset:00000000-0000-0000-0000-000000000000@1"},
    "reward": {"components": [{"kind": "numeric"}]},
}


def dump(task):
    return task.model_dump(mode="json")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
def test_every_example_comes_back_as_it_was(preset):
    task = preset.task()
    assert dump(read_task(yaml_of(task))) == dump(task)


def test_every_field_comes_back_whatever_was_chosen():
    code = "def reward(prompt, completion, answer, row):\n    # a: comment\n\n    return 'x' in completion  \n"
    task = parse_spec(
        SPEC
        | {
            "name": "no: #1 'quoted' \u2028 \x07 🧮 עברית",
            "reward": {"components": [{"kind": "python", "name": "1e-5", "code": code, "weight": 1e-300}]},
            "data": SPEC["data"] | {"system_prompt": "  two\nlines:\n\n- and\ttabs\n", "columns": {"prompt": "yes"}},
            "hyperparameters": {"learning_rate": 1.2345678901234567e-05, "steps": 7},
            "budget": {"amount": "0.100000", "minutes": 3},
            "seed": 2**63 - 1,
        }
    )
    assert dump(read_task(yaml_of(task))) == dump(task)


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_1", min_size=1), inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_any_value_comes_back(value):
    assert read_value("\n".join(yaml_lines({"value": value})))[0] == {"value": value}


def test_defaults_are_comments_that_can_be_taken_up():
    text = yaml_of(parse_spec(SPEC))
    assert "  # learning_rate: " in text and "# critic" not in text
    taken = text.replace("  # group_size:", "  group_size:").replace("# sampling:", "sampling:")
    assert dump(read_task(taken)) == dump(parse_spec(SPEC))


def test_json_is_read_too_even_with_tabs():
    assert dump(read_task(json.dumps(SPEC, indent="\t"))) == dump(parse_spec(SPEC))


@pytest.mark.parametrize(
    ("text", "line", "path", "words"),
    [
        ("recipe: grpo\ndata:\n  source: x\nsampling:\n  group_size: many\n", 5, "sampling.group_size", "integer"),
        ("recipe: sft\ndata:\n  source: x\n  colour: red\n", 4, "data.colour", "no such field"),
        ("recipe: sft\ndata: {}\n", 2, "data.source", "required"),
        ("recipe: grpo\ndata: {source: x}\n", None, "reward", "choose one"),
        ("recipe: sft\nrecipe: sft\n", 2, "", "twice"),
        ("recipe: sft\n\tdata: x\n", 2, "", "no YAML"),
        ("a: &x [1]\nb: *x\n", 1, "", "anchors"),
        ("a: !!python/object/apply:os.system ['true']\n", 1, "", "tags"),
        ("- 1\n", 1, "", "names and values"),
        ("", None, "", "empty"),
        ("a: [" + "[" * 500, 1, "", "deep"),
        ("a: \x00", None, "", "cannot be read"),
        ("a" * (LONGEST + 1), None, "", "characters"),
        ("a: 1\n---\nb: 2\n", 2, "", "no YAML"),
        ("? [1, 2]\n: 3\n", 1, "", "plain word"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_path(text, line, path, words):
    with pytest.raises(TextRefused) as refused:
        read_task(text)
    first = refused.value.errors[0]
    assert (first.line, first.path) == (line, path), str(first)
    assert words in first.message
