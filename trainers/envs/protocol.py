"""What an environment is: something a model talks with, turn by turn, and that says in the end how well it did.

An environment never sees tokens. It is given the text of the model's turn and answers with text; the rollout keeps the
model's own tokens as they were sampled and encodes only what the environment says. One object is one episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Turn:
    """The environment's answer to a turn of the model.

    ``message``: what it says next; None ends the episode. ``reward`` is added to the episode's; ``parts`` are values to
    chart by name (the last one of each name counts); ``accurate``: whether the task counts as solved.
    """

    message: str | None
    reward: float = 0.0
    accurate: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)


class Environment(Protocol):
    """One episode."""

    def reset(self, task: Mapping[str, Any]) -> str:
        """Begin with a task (a row's columns); returns the opening question.

        Raises ``ValueError`` with a sentence for a person when the row holds no task of this environment.
        """
        ...

    def step(self, text: str) -> Turn:
        """The model has said ``text``. Never raises: whatever a model says is a move, if a bad one."""
        ...


class EnvironmentKind(Protocol):
    """A kind of environment: makes episodes, and tasks for them."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def make(self) -> Environment: ...

    def tasks(self, count: int, seed: int) -> Sequence[Mapping[str, Any]]:
        """At most ``count`` different tasks, each with ``prompt`` (the opening question) and ``answer`` among its
        columns. The same seed gives the same tasks."""
        ...


def whole_number(task: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A column that must hold a whole number in a range. Raises ``ValueError``."""
    value = task.get(name)
    if isinstance(value, str) and value.strip().lstrip("-").isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"The column {name!r} must hold a whole number from {low:,} to {high:,}.")
    return value
