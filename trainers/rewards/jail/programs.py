"""Runs the program that a model wrote against tests.

Where a test is what a program reads and must write, only its input comes in here: what is written goes back and is
compared outside, so that no program can mark its own work. Tests in Python run beside the code that they test.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
from collections.abc import Callable
from typing import Any

Emit = Callable[[dict[str, Any]], None]

FILE = "solution.py"
WRITTEN_CHARACTERS = 200_000
_SHOWN = 200


def streams(payload: dict[str, Any], emit: Emit) -> None:
    """``{code, inputs}`` → ``{i, written}`` or ``{i, error}`` each: the program runs once for every input."""
    try:
        program = compile(payload["code"], FILE, "exec", dont_inherit=True)
    except BaseException as error:
        for index in range(len(payload["inputs"])):
            emit({"i": index, "error": _described(error)})
        return
    for index, text in enumerate(payload["inputs"]):
        written = io.BytesIO()
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogateescape")), "utf-8", "surrogateescape")
        stream = sys.stdout = io.TextIOWrapper(written, "utf-8", "replace", write_through=True)
        failed = _outcome(lambda: exec(program, {"__name__": "__main__", "__file__": FILE}))
        with contextlib.suppress(ValueError):  # closed by the program
            stream.flush()
        sys.stdout = sys.__stdout__
        emit({"i": index, "written": _text(written)} if failed is None else {"i": index, "error": failed})


def asserts(payload: dict[str, Any], emit: Emit) -> None:
    """``{code, tests, entry}`` → ``{i, passed}`` or ``{i, error}`` each: every test is Python that must raise nothing.

    Where ``entry`` names a function and a test defines ``check``, that is called with it.
    """
    scope: dict[str, Any] = {"__name__": "solution", "__file__": FILE}
    failed = _outcome(lambda: exec(compile(payload["code"], FILE, "exec", dont_inherit=True), scope), leaving=True)
    for index, test in enumerate(payload["tests"]):
        run = functools.partial(_assert, test, dict(scope), payload["entry"])
        error = failed or _outcome(run, leaving=True)
        emit({"i": index, "error": error} if error is not None else {"i": index, "passed": True})


def _assert(test: str, scope: dict[str, Any], entry: str | None) -> None:
    exec(compile(test, "test.py", "exec", dont_inherit=True), scope)
    if entry is not None and callable(check := scope.get("check")):
        if entry not in scope:
            raise NameError(f"name {entry!r} is not defined")
        check(scope[entry])


def _outcome(run: Callable[[], object], *, leaving: bool = False) -> str | None:
    """What a run raised, in words; ending by ``sys.exit()`` is the program's right, unless ``leaving`` is an error."""
    try:
        run()
    except SystemExit as error:
        return _described(error) if leaving or error.code not in (None, 0) else None
    except BaseException as error:
        return _described(error)
    return None


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        text = ""
    told = f"{type(error).__name__}: {text}"
    return told if len(told) <= _SHOWN else told[:_SHOWN] + "…"


def _text(written: io.BytesIO) -> str:
    try:
        return written.getvalue()[: 4 * WRITTEN_CHARACTERS].decode("utf-8", "replace")[:WRITTEN_CHARACTERS]
    except ValueError:  # the program closed its standard output
        return ""


TASKS: dict[str, Callable[[dict[str, Any], Emit], None]] = {"streams": streams, "asserts": asserts}
