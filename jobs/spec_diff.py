"""What differs between two task specs, field by field, for a person who changed one into the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.form_values import value_at
from jobs.forms import group_title
from jobs.spec_fields import format_value, spec_fields
from trainers.spec import SpecError, TaskSpec, parse_spec

LONGEST = 120
# A copy is named after its original; that it is another job needs no telling.
LEFT_OUT = frozenset({"name"})


@dataclass(frozen=True)
class Change:
    """``before`` and ``after`` as a person reads them; empty for a field that has none there."""

    path: str
    label: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.label} {self.before or '–'} → {self.after or '–'}"


def changes_between(before: TaskSpec, after: TaskSpec) -> list[Change]:
    """In the order of the spec; the reward's parts by their paths, at the end."""
    found = []
    for field in spec_fields():
        left, right = value_at(before, field.path), value_at(after, field.path)
        if left != right and field.path not in LEFT_OUT:
            parent = "" if "." not in field.path else f"{group_title(field)}: "
            found.append(Change(field.path, f"{parent}{field.label}", _text(left), _text(right)))
    return [*found, *_reward_changes(before, after)]


def changes_between_stored(before: dict[str, Any], after: dict[str, Any]) -> list[Change] | None:
    """The same for specs as jobs hold them; None where one is of a version that cannot be read any more."""
    try:
        return changes_between(parse_spec(before), parse_spec(after))
    except SpecError:
        return None


def _reward_changes(before: TaskSpec, after: TaskSpec) -> Iterator[Change]:
    rewards = [task.reward.model_dump(mode="json") if task.reward else None for task in (before, after)]
    left, right = (dict(_leaves(reward, "")) for reward in rewards)
    for path in dict.fromkeys([*left, *right]):
        if left.get(path) != right.get(path):
            yield Change(
                f"reward{path}", f"Reward{path.replace('.', ' ')}", _text(left.get(path)), _text(right.get(path))
            )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index + 1}")
    elif value is not None:
        yield path, value


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = " ".join(format_value(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
