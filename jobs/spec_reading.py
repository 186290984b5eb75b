"""A task spec as text, read: YAML or JSON from strangers, with the line of everything that is wrong.

Only plain YAML 1.2 values are read: no tags, no anchors, no aliases, bounded in size and depth. Nothing is constructed.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import yaml

from trainers.spec import SpecError, TaskSpec, parse_spec

LONGEST = 200_000
DEEPEST = 24

_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9]{1,400}$")
# As in the core schema of YAML 1.2: 1e-5 is a number, and `no` is a word.
FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$|^\.nan$", re.IGNORECASE)


@dataclass(frozen=True)
class TextError:
    """``line`` counts from 1, None when the place is not known; ``path`` is dotted, empty for the text as a whole."""

    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = f"Line {self.line}: " if self.line else ""
        return f"{place}{self.path + ': ' if self.path else ''}{self.message}"


class TextRefused(ValueError):
    """A text that is no task spec; ``errors`` in the order of the lines."""

    def __init__(self, errors: list[TextError]) -> None:
        self.errors = sorted(errors, key=lambda error: error.line or 0)
        super().__init__("; ".join(map(str, self.errors)))


class _Loader(yaml.SafeLoader):
    """Composes nodes only, and refuses on the way what a spec has no use for."""

    yaml_implicit_resolvers: dict[str, Any] = {}
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise TextRefused([TextError(line, "", "anchors (&) and aliases (*) are not read; write the value out.")])
        if getattr(event, "tag", None):
            raise TextRefused([TextError(line, "", "tags (!) are not read; write the value plainly.")])
        if self.depth >= DEEPEST:
            raise TextRefused([TextError(line, "", f"is nested more than {DEEPEST} levels deep.")])
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def read_value(text: str) -> tuple[Any, dict[str, int]]:
    """The JSON-like value of a YAML or JSON text, and the line of each dotted path in it.

    Raises :class:`TextRefused`.
    """
    if len(text) > LONGEST:
        raise TextRefused([TextError(None, "", f"The text has more than {LONGEST:,} characters; a task has fewer.")])
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        plain = _plain_json(text)
        if plain is not None:
            return plain, {}
        mark = error.problem_mark or error.context_mark
        said = (error.problem or error.context or "cannot be read").rstrip(".")
        raise TextRefused([TextError(mark.line + 1 if mark else None, "", f"is no YAML here: {said}.")]) from None
    except yaml.YAMLError as error:
        raise TextRefused([TextError(None, "", f"The text cannot be read: {str(error).splitlines()[0]}.")]) from None
    if node is None:
        raise TextRefused([TextError(None, "", "The text is empty; paste a task.")])
    lines: dict[str, int] = {}
    return _value(node, "", lines), lines


def read_task(text: str) -> TaskSpec:
    """The task that a text describes. Raises :class:`TextRefused` with line and path of everything that is wrong."""
    value, lines = read_value(text)
    if not isinstance(value, dict):
        raise TextRefused([TextError(1, "", "A task is a list of names and values, such as `recipe: grpo`.")])
    try:
        return parse_spec(value)
    except SpecError as error:
        raise TextRefused([TextError(_line(path, lines), path, message) for path, message in error.errors]) from None


def _line(path: str, lines: dict[str, int]) -> int | None:
    """The line of a path, or of the nearest thing above it that the text has."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)


def _value(node: yaml.Node, path: str, lines: dict[str, int]) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        found = []
        for index, item in enumerate(node.value):
            inner = f"{path}.{index}" if path else str(index)
            lines[inner] = item.start_mark.line + 1
            found.append(_value(item, inner, lines))
        return found
    result: dict[str, Any] = {}
    for key, item in node.value:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise TextRefused([TextError(line, path, "a name must be a plain word.")])
        if name in result:
            raise TextRefused([TextError(line, path, f"{name} stands here twice; leave one.")])
        inner = f"{path}.{name}" if path else name
        lines[inner] = line
        result[name] = _value(item, inner, lines)
    return result


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    if node.style is not None:
        return text  # quoted, or a block: a text whatever it looks like
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        return int(text)
    if FLOAT.match(text):
        value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return value if math.isfinite(value) else text
    return text


def _plain_json(text: str) -> Any:
    """JSON that YAML cannot read, as with tabs between its parts."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
