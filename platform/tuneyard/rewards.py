"""From what a person writes as a reward to the components of a reward spec."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tuneyard.errors import TaskError
from tuneyard.fields import plain, unknown

KINDS = (
    *("exact", "numeric", "math", "similarity", "pattern", "tags", "json_schema", "code", "judge"),
    *("length", "length_target", "overlong", "repetition", "python"),
)
# Kinds that a name alone does not describe, with the least that does.
_EXAMPLES = {
    "length": "length needs a maximum: {'kind': 'length', 'maximum': 200}",
    "length_target": "length_target needs a length: {'kind': 'length_target', 'target': 200, 'width': 100}",
    "overlong": "overlong needs a limit: {'kind': 'overlong', 'limit': 256, 'buffer': 64}",
    "pattern": "pattern needs an expression: {'kind': 'pattern', 'pattern': r'\\d+'}",
    "json_schema": "json_schema needs a schema: {'kind': 'json_schema', 'definition': {'type': 'object'}}",
    "judge": "judge needs an endpoint, a model and a prompt: {'kind': 'judge', 'endpoint': "
    "'https://api.example.com/v1', 'model': '...', 'secret': '...', 'prompt': 'Score from 0 to 10: {completion}'}",
    "python": "pass the function itself instead of the word 'python'",
}
PARAMETERS = ("prompt", "completion", "answer", "row")
REGISTERED = "reward:"


def reward_spec(reward: Any, path: str = "reward") -> dict[str, Any]:
    """A reward spec ``{"components": [...]}`` from a name, a component, a list of them, or a Python function.

    Raises :class:`TaskError` with the place of what cannot be used.
    """
    if isinstance(reward, Mapping) and "components" in reward:
        extra = [key for key in reward if key != "components"]
        if extra:
            raise unknown(path, extra[0], ["components"])
        reward, path = reward["components"], f"{path}.components"
    if isinstance(reward, (list, tuple)):
        if not reward:
            raise TaskError(path, "the list is empty; a reward needs at least one component")
        return {"components": [_component(item, f"{path}.{index}") for index, item in enumerate(reward)]}
    return {"components": [_component(reward, path)]}


def _component(item: Any, path: str) -> dict[str, Any]:
    if isinstance(item, str):
        return _by_name(item, path)
    if isinstance(item, Mapping):
        value = plain(item, path)
        if "kind" not in value:
            raise TaskError(path, f"a component needs a 'kind', one of: {', '.join(KINDS)}")
        if value["kind"] not in KINDS:
            raise unknown(path, value["kind"], KINDS)
        return dict(value)
    if callable(item):
        return {"kind": "python", "name": getattr(item, "__name__", "python")[:60], "code": function_source(item, path)}
    raise TaskError(path, f"a {type(item).__name__} is no reward; use a name, a dict, a list of them or a function")


def _by_name(name: str, path: str) -> dict[str, Any]:
    if name not in KINDS:
        raise unknown(path, name, KINDS)
    if name in _EXAMPLES:
        raise TaskError(path, _EXAMPLES[name])
    return {"kind": name}


def from_file(file: Path) -> dict[str, Any]:
    """A reward spec from a Python file that defines ``reward(prompt, completion, answer, row)``."""
    try:
        code = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError("reward", f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return {"components": [{"kind": "python", "code": code}]}


def function_source(function: Any, path: str = "reward") -> str:
    """The source of a program that defines ``reward(prompt, completion, answer, row)`` by this function.

    The function runs on the server, where only its own text arrives: modules it uses are imported again, plain
    constants are copied, and anything else from outside of it is refused with its name.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, FunctionType):
        raise TaskError(path, f"{name!r} is a {type(function).__name__}; write a plain function with def")
    if name == "<lambda>":
        raise TaskError(path, "the source of a lambda cannot be sent; write it as a function with def")
    if hasattr(function, "__wrapped__"):
        raise TaskError(path, f"{name} is decorated, and the decorator would not arrive; remove it")
    try:
        source = textwrap.dedent(inspect.getsource(function))
        definition = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise TaskError(
            path,
            f"the source of {name} cannot be found (was it typed at a prompt?); save it in a file, or pass "
            "{'kind': 'python', 'code': '''...'''}",
        ) from None
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        what = "asynchronous" if isinstance(definition, ast.AsyncFunctionDef) else "not a plain def in its file"
        raise TaskError(path, f"{name} is {what}; write a plain function with def")
    if definition.decorator_list:
        raise TaskError(path, f"{name} is decorated, and the decorator would not arrive; remove it")
    if function.__code__.co_freevars:
        raise TaskError(path, _outside(name, function.__code__.co_freevars[0]))
    _check_parameters(function, path)
    # Annotations stay text, so that what they name need not exist on the server.
    parts = ["from __future__ import annotations", *_surroundings(function, definition, path), "", "", source.rstrip()]
    if name != "reward":
        parts += ["", "", f"reward = {name}"]
    return "\n".join([*parts, ""])


def _surroundings(function: FunctionType, definition: ast.FunctionDef, path: str) -> list[str]:
    """Lines that bring back what the function uses of its module."""
    lines = []
    for used in sorted(_globals_used(function.__code__) | _names_in_defaults(definition)):
        if used == function.__name__ or used not in function.__globals__:
            continue  # itself, a builtin, or a name that is an error at home too
        value = function.__globals__[used]
        if isinstance(value, ModuleType):
            root = value.__name__
            lines.append(f"import {root}" if root == used else f"import {root} as {used}")
        elif _is_constant(value):
            lines.append(f"{used} = {value!r}")
        else:
            raise TaskError(path, _outside(function.__name__, used))
    return lines


def _outside(name: str, used: str) -> str:
    return f"{name} uses {used!r}, which is defined outside of it and would not arrive; move it into the function"


def _globals_used(code: CodeType) -> set[str]:
    names = {item.argval for item in dis.get_instructions(code) if item.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _globals_used(constant)
    return names


def _names_in_defaults(definition: ast.FunctionDef) -> set[str]:
    defaults = [*definition.args.defaults, *(item for item in definition.args.kw_defaults if item is not None)]
    return {node.id for item in defaults for node in ast.walk(item) if isinstance(node, ast.Name)}


def _is_constant(value: Any) -> bool:
    """Whether ``repr(value)`` is a literal of the same value."""
    if isinstance(value, (dict, list, tuple, set, frozenset, str, bytes, int, float, bool, type(None))):
        try:
            return bool(ast.literal_eval(repr(value)) == value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return False
    return False


def _check_parameters(function: FunctionType, path: str) -> None:
    """The server passes what a function asks for by name; refuse what it could not give."""
    parameters = inspect.signature(function).parameters.values()
    if any(item.kind in (item.POSITIONAL_ONLY, item.VAR_POSITIONAL) for item in parameters):
        return  # called by position, with all four
    for item in parameters:
        if item.name not in PARAMETERS and item.default is item.empty and item.kind is not item.VAR_KEYWORD:
            raise TaskError(
                path,
                f"{function.__name__} asks for {item.name!r}; a reward is called with any of: {', '.join(PARAMETERS)}",
            )
    if not any(item.name in PARAMETERS or item.kind is item.VAR_KEYWORD for item in parameters):
        raise TaskError(path, f"{function.__name__} takes none of: {', '.join(PARAMETERS)}; it could not see anything")
