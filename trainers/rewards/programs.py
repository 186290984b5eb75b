"""The program in a completion, run against the tests of its row."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from trainers.recipes.context import ScoredInput
from trainers.rewards.bench import Bench
from trainers.rewards.spec import Code
from trainers.rewards.unscored import Unscored

TESTS = 200
SIDE_BY_SIDE = 4
_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[ \t]*([A-Za-z0-9+_-]*)[^\n`]*$")
_SHAPES = (
    'Write the tests as [{"input": "1 2", "output": "3"}, ...], as {"inputs": [...], "outputs": [...]}, or as Python '
    'asserts: ["assert add(1, 2) == 3", ...].'
)


class NoTests(ValueError):
    """A row whose tests cannot be used; the text goes on where "the row" could stand."""


@dataclass(frozen=True, slots=True)
class Tests:
    """``outputs[i]`` is what must be written for ``inputs[i]``; or ``asserts`` are Python."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    asserts: tuple[str, ...] = ()
    entry: str | None = None


def code(component: Code, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    """Every completion is run by itself, so that one which hangs or crashes costs nobody else their value.

    A few are run side by side, each in a sandbox of its own.
    """
    tests = []
    for index, row in enumerate(rows):
        try:
            tests.append(tests_of(component, row.row))
        except NoTests as error:
            raise Unscored(index, "cannot be computed", _SHAPES, str(error)) from error
    places: SimpleQueue[int] = SimpleQueue()
    for place in range(min(len(rows), os.cpu_count() or 1, SIDE_BY_SIDE)):
        places.put(place)

    def value(index: int) -> float:
        place = places.get()
        try:
            program = program_of(rows[index].completion)
            results = _passed(program, tests[index], component.timeout_s, bench, place)
        finally:
            places.put(place)
        return float(all(results)) if component.every else sum(results) / len(results)

    with ThreadPoolExecutor(places.qsize(), thread_name_prefix="programs") as pool:
        return list(pool.map(value, range(len(rows))))


def program_of(completion: str) -> str:
    """What stands in the last code block (of Python, if any says so), or else the whole completion."""
    blocks: list[tuple[str, str]] = []
    fence, language = "", ""
    lines: list[str] = []
    for line in completion.split("\n"):
        match = _FENCE.match(line)
        if not fence and match:
            fence, language, lines = match[1], match[2].casefold(), []
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            blocks.append((language, "\n".join(lines)))
            fence = ""
        elif fence:
            lines.append(line)
    if fence and lines:  # cut off before its end
        blocks.append((language, "\n".join(lines)))
    python = [text for language, text in blocks if language in ("python", "py", "python3")]
    if python:
        return python[-1]
    return blocks[-1][1] if blocks else completion


def tests_of(component: Code, row: Mapping[str, Any]) -> Tests:
    """The tests of a row. Raises :class:`NoTests`."""
    if component.tests not in row:
        raise NoTests(f"the row has no column {component.tests!r}")
    value = row[component.tests]
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with contextlib.suppress(ValueError, RecursionError):  # Python may begin so, too
            value = json.loads(value)
    entry = row.get(component.entry_point) if component.entry_point is not None else None
    if entry is not None and not isinstance(entry, str):
        raise NoTests(f"column {component.entry_point!r} is no name of a function")
    if isinstance(value, str):
        value = [value]
    if isinstance(value, dict):
        value = _pairs(value, component.tests)
    if not isinstance(value, list) or not value:
        raise NoTests(f"column {component.tests!r} holds no tests")
    if len(value) > TESTS:
        raise NoTests(f"column {component.tests!r} holds {len(value):,} tests; at most {TESTS} can be run")
    if all(isinstance(item, str) for item in value):
        return Tests(asserts=tuple(value), entry=entry)
    pairs = [_pair(item, number, component.tests) for number, item in enumerate(value, start=1)]
    return Tests(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


def _pairs(value: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs):
        return [{"input": one, "output": other} for one, other in zip(inputs, outputs, strict=True)]
    if "output" in value:
        return [dict(value)]
    raise NoTests(f"column {column!r} is an object without as many inputs as outputs")


def _pair(item: Any, number: int, column: str) -> tuple[str, str]:
    if isinstance(item, Mapping):
        given, wanted = item.get("input", ""), item.get("output")
        given = "\n".join(given) if isinstance(given, list) and all(isinstance(x, str) for x in given) else given
        wanted = "\n".join(wanted) if isinstance(wanted, list) and all(isinstance(x, str) for x in wanted) else wanted
        if isinstance(given, str) and isinstance(wanted, str):
            return given, wanted
    raise NoTests(f"test {number} in column {column!r} has no input and output that are texts")


def _passed(program: str, tests: Tests, seconds: float, bench: Bench, place: int) -> list[bool]:
    count = len(tests.asserts) or len(tests.inputs)
    if tests.asserts:
        task, payload = "asserts", {"code": program, "tests": tests.asserts, "entry": tests.entry}
    else:
        task, payload = "streams", {"code": program, "inputs": tests.inputs}
    outcome = bench.run(task, payload, count=count, seconds=seconds, trusted=False, each=True, place=place)
    results = [False] * count
    for number, message in enumerate(outcome.messages):
        if message.get("i") != number:  # written by the program itself, past the channel's rules
            return [False] * count
        if tests.asserts:
            results[number] = message.get("passed") is True
        else:
            results[number] = isinstance(written := message.get("written"), str) and _same(
                written, tests.outputs[number]
            )
        if "error" in message:
            _note(bench, number, str(message["error"]))
    if outcome.failure is not None:
        _note(bench, len(outcome.messages), outcome.failure)
    return results


def _same(written: str, wanted: str) -> bool:
    """Equal but for white space at the ends of lines and of the whole, as judges of programs compare."""
    return [line.rstrip() for line in written.strip().split("\n")] == [
        line.rstrip() for line in wanted.strip().split("\n")
    ]


def _note(bench: Bench, place: int, what: str) -> None:
    if bench.trying:
        bench.printed.append(f"test {place + 1}: {what}\n")
