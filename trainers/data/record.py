"""One record of a file, and what can be wrong with it before its columns are looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from trainers.data.source import ROW_BYTES

_TYPES = {
    bytes: "binary data",
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


class RowFault(ValueError):
    """What makes one row unusable: a kind for counting, the column if one is to blame, and words for a person."""

    def __init__(self, kind: str, message: str, advice: str, column: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.advice, self.column = kind, message, advice, column


@dataclass(frozen=True, slots=True)
class Record:
    """The columns of one row, or the fault that keeps it from having any."""

    line: int
    columns: dict[str, Any] | None
    fault: RowFault | None = None

    @classmethod
    def too_long(cls, line: int) -> Record:
        limit = ROW_BYTES >> 20
        return cls(
            line, None, RowFault("too_long", f"It is longer than {limit} MiB.", "Shorten this row or remove it.")
        )


def type_words(value: Any) -> str:
    """The JSON type of a value in words: ``a list``, ``a number``, ``null``."""
    return "null" if value is None else _TYPES.get(type(value), f"a {type(value).__name__}")


def decoded(content: bytes) -> str | RowFault:
    """The text of a row, or why it is none."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        advice = "Save the file as UTF-8, or correct this line."
        return RowFault("not_utf8", f"It is not valid UTF-8 (byte {error.start + 1} of the line).", advice)
    if "\0" in text:
        return RowFault("nul", "It contains NUL bytes.", "Remove them; the file may be damaged.")
    return text


def parsed(line: int, content: bytes) -> Record:
    """One line of JSONL."""
    text = decoded(content)
    if isinstance(text, RowFault):
        return Record(line, None, text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"It is not valid JSON: {json_fault(error)} at character {error.colno}."
        return Record(line, None, RowFault("broken_json", message, "Write one complete JSON object per line."))
    except DoubledName as error:
        return Record(line, None, doubled_fault(error.name))
    except (ValueError, RecursionError):
        message = "It is not usable JSON: nested too deeply, or a number with thousands of digits."
        return Record(line, None, RowFault("broken_json", message, "Write one plain JSON object per line."))
    return as_record(line, value)


class DoubledName(ValueError):
    """An object that has one name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def doubled_name(pairs: list[tuple[str, Any]]) -> str | None:
    """The first name that stands twice."""
    seen = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None


def doubled_fault(name: str) -> RowFault:
    shown = name if len(name) <= 60 else name[:59] + "…"
    advice = "Keep one of them: which was meant cannot be told."
    return RowFault("doubled_name", f"The name {shown!r} stands twice in one object.", advice, shown)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DoubledName(doubled_name(pairs) or "")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_without_doubles)


def as_record(line: int, value: Any) -> Record:
    if isinstance(value, dict):
        return Record(line, value)
    message = f"It is {type_words(value)}, not an object with columns."
    return Record(
        line, None, RowFault("not_object", message, 'Write rows as objects: {"prompt": "...", "answer": "..."}.')
    )


def json_fault(error: json.JSONDecodeError) -> str:
    """The parser's reason in lower case: ``expecting ',' delimiter``."""
    return error.msg[:1].lower() + error.msg[1:].partition(":")[0]
