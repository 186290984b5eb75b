"""Between a task spec and the flat fields of a form, both ways without loss."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, get_args

from jobs.spec_fields import SpecField, format_value, spec_fields
from trainers.spec import RECIPES, LossName, TaskSpec

# Sections of which a recipe's spec holds only what it reads, so that it says what will run.
ONLY_IF_READ = frozenset({"loss", "environment"})


def values_of(spec: TaskSpec) -> dict[str, Any]:
    """What the form's fields show for a spec: text by dotted path, and booleans for switches."""
    return {field.path: _shown(field, value_at(spec, field.path)) for field in spec_fields()}


def default_values() -> dict[str, Any]:
    """What the fields of an empty form show: the defaults of the spec."""
    return {field.path: _shown(field, field.default) for field in spec_fields()}


def raw_spec(values: Mapping[str, Any], reward: Any = None) -> dict[str, Any]:
    """The unchecked spec that a form's values describe; an empty field is left to its default.

    ``reward`` is the JSON of a reward spec, or None. The result goes through :func:`trainers.spec.parse_spec`.
    """
    spec: dict[str, Any] = {}
    recipe = str(values.get("recipe"))
    for field in spec_fields():
        value = values.get(field.path)
        if value in (None, "") or (field.section in ONLY_IF_READ and recipe in RECIPES and recipe not in field.recipes):
            continue
        if field.path == "loss.name" and _of_another_recipe(str(value), recipe):
            continue  # chosen before the recipe was: the recipe's own loss is meant
        _put(spec, field.path, value)
    if reward is not None and not (recipe in RECIPES and RECIPES[recipe].reward == "unread"):
        spec["reward"] = reward
    return spec


def _of_another_recipe(loss: str, recipe: str) -> bool:
    return loss in get_args(LossName) and recipe in RECIPES and loss not in RECIPES[recipe].losses


def same(left: TaskSpec, right: TaskSpec) -> bool:
    return left.model_dump(mode="json") == right.model_dump(mode="json")


def _shown(field: SpecField, value: Any) -> Any:
    if field.control == "switch":
        return bool(value)
    if value is None:
        return ""
    # Twelve digits are enough to read; a number that needs more is shown with all it has, so that a clone is exact.
    if isinstance(value, float) and float(format_value(value)) != value:
        return repr(value)
    return format_value(Decimal(value) if isinstance(value, Decimal) else value)


def value_at(spec: TaskSpec, path: str) -> Any:
    """The value at a dotted path."""
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _put(spec: dict[str, Any], path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        spec = spec.setdefault(parent, {})
    spec[name] = value
