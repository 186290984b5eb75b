"""The task spec's fields as a form shows them, read from the spec's own classes so that no field is listed twice."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trainers.spec import RECIPES, TaskSpec, read_by

Control = Literal["integer", "number", "text", "long_text", "switch", "choice"]

# What a number counts, told from the end of its name, in the words of the field.
UNITS = (
    ("_tokens", "tokens"),
    ("_minutes", "minutes"),
    ("minutes", "minutes"),
    ("_steps", "steps"),
    ("steps", "steps"),
    ("_rows", "rows"),
    ("_per_prompt", "completions"),
    ("batch_size", "prompts"),
    ("group_size", "completions"),
    ("prompts", "prompts"),
    ("limit", "rows"),
    ("checkpointing.keep", "checkpoints"),
    ("devices", "devices"),
)
# Spelled as the field spells them; every other name is its own label.
ACRONYMS = {
    "kl": "KL",
    "gae": "GAE",
    "n": "N",
    "lora": "LoRA",
    "mlp": "MLP",
    "adamw": "AdamW",
    "top": "Top",
    "p": "p",
    "dtype": "Number format",
}
LONG_TEXT = 1000
# Names that need their section to be understood, said so that they stand alone.
LABELS = {
    "model.base": "Base model",
    "model.start_from": "Start from",
    "environment.kind": "Environment",
    "model.adapter.kind": "What is trained",
    "data.source": "Dataset",
    "loss.name": "Loss",
    "budget.amount": "Budget",
    "budget.minutes": "Time limit",
    "data.limit": "Rows at most",
    "data.max_bad_rows": "Bad rows to leave out",
    "evaluation.every_steps": "Evaluate every",
    "checkpointing.every_steps": "Checkpoint every",
    "checkpointing.every_minutes": "Checkpoint also every",
    "checkpointing.keep": "Checkpoints kept",
    "evaluation.source": "Dataset for evaluation",
    "loss.kl_in": "KL penalty in",
    "loss.expression": "Own loss",
    "critic.learning_rate": "Learning rate of the critic",
    "critic.warmup_steps": "Steps for the critic alone",
    "selection.keep": "Best completions to imitate",
    "selection.minimum_reward": "Least reward to imitate",
    "evaluation.prompts": "Held-out prompts",
}


@dataclass(frozen=True)
class SpecField:
    """One value of the task spec. ``path`` is dotted, as in :class:`trainers.spec.SpecError`."""

    path: str
    label: str
    help: str
    control: Control
    default: Any
    required: bool
    choices: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    unit: str = ""
    max_length: int | None = None
    recipes: frozenset[str] = frozenset()

    @property
    def only_for(self) -> str:
        """The recipes that read it, for the page to hide it from the others; empty when all do."""
        return "" if self.recipes >= set(RECIPES) else " ".join(sorted(self.recipes))

    @property
    def section(self) -> str:
        """The part of the spec it belongs to; a field at the top is its own section."""
        return self.path.split(".", 1)[0]

    @property
    def range_text(self) -> str:
        """``1 – 512``, ``above 0``, or nothing when any value goes."""
        low, high = self.minimum.lstrip(">"), self.maximum.lstrip("<")
        above = f"above {low}" if self.minimum.startswith(">") else low
        if low and high:
            return f"{above}, below {high}" if self.maximum.startswith("<") else f"{above} – {high}"
        if low:
            return above if self.minimum.startswith(">") else f"{low} or more"
        return f"at most {high}" if high else ""

    @property
    def default_text(self) -> str:
        return "" if self.default is None else format_value(self.default)


def format_value(value: Any) -> str:
    """A spec value as a person types it: plain digits where they are short, else scientific notation."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.12g}".replace("e-0", "e-").replace("e+0", "e+")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


@lru_cache(maxsize=1)
def spec_fields() -> tuple[SpecField, ...]:
    """Every value of the task spec that a person can choose, in the order of the spec.

    Left out are the version, the reward (made on its own page), and values with only one possibility.
    """
    return tuple(_walk(TaskSpec, ""))


def spec_field(path: str) -> SpecField | None:
    """The field at a dotted path; None where the spec has none that a person can choose."""
    return _by_path().get(path)


@lru_cache(maxsize=1)
def _by_path() -> dict[str, SpecField]:
    return {field.path: field for field in spec_fields()}


def _walk(model: type[BaseModel], prefix: str) -> Iterator[SpecField]:
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        kind, nullable = _bare(info.annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            if path != "reward":
                yield from _walk(kind, f"{path}.")
            continue
        field = _field(path, name, info, kind, nullable)
        if field is not None:
            yield field


def _field(path: str, name: str, info: FieldInfo, kind: Any, nullable: bool) -> SpecField | None:
    choices: tuple[str, ...] = ()
    limits = _limits(info)
    label = LABELS.get(path) or _label(name)
    unit = _unit(path)
    if get_origin(kind) is Literal:
        choices = tuple(str(choice) for choice in get_args(kind))
        if len(choices) < 2:
            return None
        control: Control = "choice"
    elif kind is bool:
        control = "switch"
    elif kind is int:
        control = "integer"
    elif kind in (float, Decimal):
        control = "number"
    else:
        control = "long_text" if (limits.max_length or 0) > LONG_TEXT else "text"
    return SpecField(
        path=path,
        label=label,
        help=info.description or "",
        control=control,
        default=None if info.is_required() else info.get_default(call_default_factory=True),
        required=info.is_required() and not nullable,
        choices=choices,
        minimum=limits.minimum,
        maximum=limits.maximum,
        # A label that says what it counts needs no unit.
        unit=unit if control in ("integer", "number") and unit.rstrip("s") not in label.lower() else "",
        max_length=limits.max_length,
        recipes=read_by(path),
    )


@dataclass
class _Limits:
    minimum: str = ""
    maximum: str = ""
    max_length: int | None = None


def _limits(info: FieldInfo) -> _Limits:
    found = _Limits()
    for item in info.metadata:
        if isinstance(item, annotated_types.Ge):
            found.minimum = format_value(item.ge)
        elif isinstance(item, annotated_types.Gt):
            found.minimum = f">{format_value(item.gt)}"
        elif isinstance(item, annotated_types.Le):
            found.maximum = _short(item.le)
        elif isinstance(item, annotated_types.Lt):
            found.maximum = f"<{_short(item.lt)}"
        elif isinstance(item, annotated_types.MaxLen):
            found.max_length = item.max_length
    return found


def _short(limit: Any) -> str:
    """A large limit as a power of ten: nobody reads nineteen digits."""
    return f"{float(limit):.3g}".replace("e+0", "e").replace("e+", "e") if limit >= 10**7 else format_value(limit)


def _bare(annotation: Any) -> tuple[Any, bool]:
    """The type without ``| None``, and whether None was allowed."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return parts[0], True
    return annotation, False


def _label(name: str) -> str:
    words = [ACRONYMS.get(word, word) for word in name.split("_")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def _unit(path: str) -> str:
    return next((unit for ending, unit in UNITS if path.endswith(ending)), "")
