"""Between a task spec and the flat fields of a form, both ways without loss."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from jobs.spec_fields import SpecField, format_value, spec_fields
from trainers.spec import TaskSpec

# Sections that only one recipe reads. The other recipe's spec is written without them, so that it says what will run.
ONLY_GRPO = frozenset({"loss", "reward"})


def values_of(spec: TaskSpec) -> dict[str, Any]:
    """What the form's fields show for a spec: text by dotted path, and booleans for switches."""
    return {field.path: _shown(field, _at(spec, field.path)) for field in spec_fields()}


def default_values() -> dict[str, Any]:
    """What the fields of an empty form show: the defaults of the spec."""
    return {field.path: _shown(field, field.default) for field in spec_fields()}


def raw_spec(values: Mapping[str, Any], reward: Any = None) -> dict[str, Any]:
    """The unchecked spec that a form's values describe; an empty field is left to its default.

    ``reward`` is the JSON of a reward spec, or None. The result goes through :func:`trainers.spec.parse_spec`.
    """
    spec: dict[str, Any] = {}
    imitates = values.get("recipe") == "sft"
    for field in spec_fields():
        value = values.get(field.path)
        if value in (None, "") or (imitates and field.section in ONLY_GRPO):
            continue
        _put(spec, field.path, value)
    if reward is not None and not imitates:
        spec["reward"] = reward
    return spec


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


def _at(spec: TaskSpec, path: str) -> Any:
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _put(spec: dict[str, Any], path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        spec = spec.setdefault(parent, {})
    spec[name] = value
