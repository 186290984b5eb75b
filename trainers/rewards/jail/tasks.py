"""What a worker computes: user functions, user patterns, and the trial of its own walls.

Every function takes the task's payload and ``emit``, which sends one small JSON object per sample as soon as it is
known; so the other side knows at which sample a task was when it had to be stopped.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import socket
import traceback
from collections.abc import Callable
from typing import Any

from . import programs

Emit = Callable[[dict[str, Any]], None]
PARAMETERS = ("prompt", "completion", "answer", "row")
FILE = "reward.py"
_SHOWN = 300


def rewards(payload: dict[str, Any], emit: Emit) -> None:
    """``{code, samples: [[prompt, completion, answer, row], ...]}`` → ``{i, value}`` or ``{i, error: {...}}`` each.

    The random generator starts from the same seed for every batch, so that equal batches get equal rewards.
    """
    random.seed(0)
    scope: dict[str, Any] = {"__name__": "reward", "__file__": FILE}
    try:
        exec(compile(payload["code"], FILE, "exec", dont_inherit=True), scope)
    except BaseException as error:
        emit({"i": -1, "error": _described(error)})
        return
    try:
        call = _caller(scope.get("reward"))
    except TypeError as error:
        emit({"i": -1, "error": {"kind": "signature", "text": str(error)}})
        return
    for index, sample in enumerate(payload["samples"]):
        try:
            value = call(sample)
        except BaseException as error:
            emit({"i": index, "error": _described(error)})
            return
        result = _number(value)
        emit({"i": index, **result})
        if "error" in result:
            return


def _caller(function: Any) -> Callable[[list[Any]], Any]:
    if not callable(function):
        raise TypeError("it defines no function called `reward`")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda sample: function(*sample)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    catches_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.POSITIONAL_ONLY for p in parameters) or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return lambda sample: function(*sample)
    unknown = [p.name for p in parameters if p.name in names and p.name not in PARAMETERS and p.default is p.empty]
    if unknown:
        raise TypeError(
            f"`reward` asks for {', '.join(f'`{name}`' for name in unknown)}; "
            "it is given `prompt`, `completion`, `answer` and `row`, by name"
        )
    given = [(i, name) for i, name in enumerate(PARAMETERS) if catches_all or name in names]
    return lambda sample: function(**{name: sample[i] for i, name in given})


def _number(value: Any) -> dict[str, Any]:
    """Plain numbers only: whatever else a function returns is shown, never guessed at."""
    if type(value) in (int, float, bool):
        try:
            return {"value": float(value)}
        except OverflowError:
            return {"error": {"kind": "type", "text": "a whole number too large for a float"}}
    if value is None:
        return {"error": {"kind": "type", "text": "None"}}
    try:
        shown = repr(value)
    except BaseException:
        shown = "something that cannot be shown"
    return {"error": {"kind": "type", "text": f"{_cut(shown)} (a {type(value).__name__})"}}


def _described(error: BaseException) -> dict[str, Any]:
    """Name, text and line of an exception; neither its own ``__str__`` nor its size is trusted."""
    if isinstance(error, MemoryError):
        return {"kind": "memory", "text": "", "line": None}
    try:
        text = str(error)
    except BaseException:
        text = ""
    line = None
    if isinstance(error, SyntaxError):
        line = error.lineno
    else:
        for frame in traceback.walk_tb(error.__traceback__):
            if frame[0].f_code.co_filename == FILE:
                line = frame[1]
    return {"kind": "raised", "type": _cut(type(error).__name__), "text": _cut(text), "line": line}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def patterns(payload: dict[str, Any], emit: Emit) -> None:
    """``{pattern, mode, texts}`` → ``{i, value}``: 1.0 or 0.0 for ``search`` and ``whole``, text or None for ``last``.

    ``last`` gives group 1 of the last match if the pattern has groups, else the whole match.
    """
    pattern, mode = re.compile(payload["pattern"]), payload["mode"]
    for index, text in enumerate(payload["texts"]):
        if mode == "last":
            last = None
            for match in pattern.finditer(text):
                last = match
            emit({"i": index, "value": None if last is None else last[1 if pattern.groups else 0]})
        else:
            found = pattern.fullmatch(text) if mode == "whole" else pattern.search(text)
            emit({"i": index, "value": 0.0 if found is None else 1.0})


def trial(payload: dict[str, Any], emit: Emit) -> None:
    """Tries the walls from inside: ``{read, write, proc, connect}``, true where an attempt came through."""
    emit({"tried": {name: _came_through(attempt) for name, attempt in _ATTEMPTS.items()}})


def _came_through(attempt: Callable[[], object]) -> bool:
    try:
        return attempt() is not False
    except OSError:
        return False


def _connect() -> bool:
    """Whether a packet could leave: connecting a datagram socket only looks up a route, it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # TEST-NET-1, RFC 5737
    return True


def _write() -> bool:
    """Any place that ordinary programs may write to; the scratch folder's own parent for one."""
    for folder in {"/tmp", "/var/tmp", "/dev/shm", os.path.dirname(os.getcwd())}:
        try:
            path = os.path.join(folder, f".sandbox-trial-{os.getpid()}")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except OSError:
            continue
        os.unlink(path)
        return True
    return False


def _read() -> bool:
    with open("/etc/passwd", "rb") as file:
        return bool(file.read(1))


_ATTEMPTS: dict[str, Callable[[], object]] = {
    "read": _read,
    "write": _write,
    "proc": lambda: bool(os.listdir("/proc")),
    "connect": _connect,
}

TASKS: dict[str, Callable[[dict[str, Any], Emit], None]] = {
    "rewards": rewards,
    "patterns": patterns,
    "trial": trial,
    **programs.TASKS,
}
