"""The form shows every value of the task spec, and a spec survives the way through the form unchanged."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jobs.form_values import raw_spec, same, values_of
from jobs.forms import BASIC, SECTIONS, section_of
from jobs.spec_fields import spec_fields
from trainers.spec import TaskSpec, parse_spec

FIELDS = {field.path: field for field in spec_fields()}
LEAST = {"recipe": "grpo", "data": {"source": "dataset:x@1"}, "reward": {"components": [{"kind": "exact"}]}}


def leaves(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Paths of all values of the schema, found without the code under test."""
    found: set[str] = set()
    schema = TaskSpec.model_json_schema()

    def walk(node: dict, path: str) -> None:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        options = [part for part in node.get("anyOf", []) if part.get("type") != "null"]
        if len(options) == 1 and "$ref" in options[0]:
            walk(options[0], path)
        elif "properties" in node:
            for name, part in node["properties"].items():
                walk(part, f"{path}.{name}" if path else name)
        else:
            found.add(path)

    walk(schema, "")
    return found


def test_every_value_of_the_spec_is_in_the_form_once():
    made_elsewhere = {path for path in leaves(TaskSpec) if path.startswith("reward.")}
    without_choice = {"version"}
    assert leaves(TaskSpec) - made_elsewhere - without_choice == set(FIELDS)
    assert len(FIELDS) == len(spec_fields())


def test_every_field_has_a_place_and_only_known_fields_stand_in_the_open():
    assert {section_of(field) for field in spec_fields()} == set(SECTIONS)
    assert set(FIELDS) >= BASIC


def test_every_field_says_what_it_does():
    silent = {path for path, field in FIELDS.items() if not field.help}
    assert not silent


@pytest.mark.parametrize(
    ("path", "control", "range_text", "default", "unit"),
    [
        ("model.adapter.rank", "integer", "1 – 512", "16", ""),
        ("hyperparameters.learning_rate", "number", "above 0 – 1", "0.0002", ""),
        ("hyperparameters.beta2", "number", "0, below 1", "0.95", ""),
        ("hyperparameters.eps", "number", "above 0, below 1", "1e-8", ""),
        ("sampling.max_new_tokens", "integer", "1 – 32768", "256", ""),
        ("sampling.group_size", "integer", "1 – 1024", "8", "completions"),
        ("evaluation.every_steps", "integer", "0 or more", "10", "steps"),
        ("loss.name", "choice", "", "ppo", ""),
        ("data.shuffle", "switch", "", "on", ""),
        ("data.system_prompt", "long_text", "", "", ""),
        ("budget.minutes", "number", "above 0 – 1e7", "", "minutes"),
    ],
)
def test_a_field_knows_its_control_range_default_and_unit(path, control, range_text, default, unit):
    field = FIELDS[path]
    assert (field.control, field.range_text, field.default_text, field.unit) == (control, range_text, default, unit)


def through_the_form(spec: TaskSpec) -> TaskSpec:
    reward = spec.reward.model_dump(mode="json") if spec.reward else None
    return parse_spec(raw_spec(values_of(spec), reward))


@given(
    rate=st.floats(1e-12, 1.0),
    steps=st.none() | st.integers(2, 10**7),
    amount=st.none() | st.decimals(Decimal("0.000001"), Decimal("1000000"), places=6),
    text=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    seed=st.integers(0, 2**63 - 1),
    recipe=st.sampled_from(["grpo", "sft"]),
)
def test_a_spec_survives_the_form_without_loss(rate, steps, amount, text, flags, seed, recipe):
    prompt = (text or "").strip() or None
    raw = {
        **LEAST,
        "recipe": recipe,
        "seed": seed,
        "data": {"source": "dataset:x@1", "system_prompt": prompt, "shuffle": flags[0]},
        "hyperparameters": {"learning_rate": rate, "steps": steps},
        "budget": {"amount": amount},
        "model": {"adapter": {"mlp": flags[1], "attention": True}},
        "evaluation": {"greedy": flags[2]},
    }
    if recipe == "sft":
        raw["reward"] = None
    spec = parse_spec(raw)
    assert same(through_the_form(spec), spec)


def test_an_imitating_spec_is_written_without_a_loss_of_the_other_recipe():
    values = values_of(parse_spec(LEAST)) | {"recipe": "sft"}
    spec = parse_spec(raw_spec(values, {"components": [{"kind": "exact"}]}))
    assert spec.loss.name == "cross_entropy"
    assert spec.reward is None
