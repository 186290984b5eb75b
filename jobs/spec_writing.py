"""A task spec as text, written: YAML in which what was chosen stands out, and every default is a comment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import yaml

from jobs.form_values import value_at
from jobs.spec_fields import SpecField, format_value, spec_fields
from jobs.spec_reading import FLOAT
from trainers.spec import TaskSpec

# Always written, for a person who reads the text to see what it is about.
ALWAYS = frozenset({"name", "recipe", "model.base", "data.source", "loss.name", "hyperparameters.steps"})
WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Writes what both YAML 1.1 and 1.2 read as it was meant."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _write_float(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(value))


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(float, _write_float)


def yaml_of(task: TaskSpec) -> str:
    """The task as YAML; :func:`jobs.spec_reading.read_task` gives back an equal one.

    What differs from the default is written, the other fields that the recipe reads are comments with their default.
    """
    shown = [(field, value_at(task, field.path)) for field in spec_fields()]
    chosen = {field.path for field, value in shown if _is_chosen(field, value)}
    alive = {path.rsplit(".", depth)[0] for path in chosen for depth in range(1, path.count(".") + 1)}
    lines = [f"version: {task.version}"]
    begun: set[str] = set()
    for field, value in shown:
        if field.path not in chosen and task.recipe not in field.recipes:
            continue
        lines += _sections(field.path, alive, begun)
        lines += _entry(field, value, field.path in chosen)
    if task.reward is not None:
        lines += ["", *yaml_lines({"reward": task.reward.model_dump(mode="json")})]
    return "\n".join(lines) + "\n"


def yaml_lines(value: Any) -> list[str]:
    """Any JSON-like value as lines of YAML."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**9)
    return text.rstrip("\n").split("\n")


def _sections(path: str, alive: set[str], begun: set[str]) -> Iterator[str]:
    """The heads of the sections that a field is the first of; one with nothing but comments is a comment itself."""
    parents = path.split(".")[:-1]
    for depth, name in enumerate(parents):
        section = ".".join(parents[: depth + 1])
        if section in begun:
            continue
        begun.add(section)
        if not depth:
            yield ""
        yield f"{'  ' * depth}{'' if section in alive else '# '}{name}:"


def _entry(field: SpecField, value: Any, chosen: bool) -> Iterator[str]:
    *parents, name = field.path.split(".")
    indent = "  " * len(parents)
    said = yaml_lines({name: format_value(value) if isinstance(value, Decimal) else value})
    if chosen:
        yield from (f"{indent}{line}" if line else line for line in said)
        return
    help = textwrap.shorten(field.help, max(20, WIDTH - len(indent) - len(said[0]) - 6), placeholder=" …")
    default = said[0] if value is not None else f"{name}:"
    yield f"{indent}# {default}{f'  # {help}' if help else ''}"


def _is_chosen(field: SpecField, value: Any) -> bool:
    return field.path in ALWAYS or field.required or value != field.default or type(value) is not type(field.default)
