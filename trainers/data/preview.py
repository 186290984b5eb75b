"""Rows as a page shows them: cut to a bearable size, and free of what JSON in a database cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainers.data.report import Preview
from trainers.data.rows import DataRow

COLUMNS_SHOWN = 200
_TEXT = 2000


def preview_of(row: DataRow) -> Preview:
    """A usable row; of a pair, what each side says after the prompt."""
    chosen, rejected = row.sides or (None, None)
    return Preview(
        line=row.line,
        messages=_messages(row.prompt_messages),
        answer=None if row.answer is None else cut(row.answer, _TEXT),
        chosen=None if chosen is None else _messages(chosen),
        rejected=None if rejected is None else _messages(rejected),
        text=None if row.text is None else cut(row.text, _TEXT),
        row={cut(name, 200): _shortened(value) for name, value in list(row.row.items())[:COLUMNS_SHOWN]},
    )


def _messages(messages: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{"role": message["role"], "content": cut(message["content"], _TEXT)} for message in messages]


def cut(text: str, length: int) -> str:
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.encode("utf-8", "replace").decode()


def _shortened(value: Any, depth: int = 0) -> Any:
    """A value small enough for a page, and free of what JSON in a database cannot hold."""
    if isinstance(value, str):
        return cut(value, 500).replace("\0", "�")
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list | dict) and depth >= 4:
        return "…"
    if isinstance(value, list):
        return [_shortened(item, depth + 1) for item in value[:20]]
    if isinstance(value, dict):
        return {cut(str(name), 200): _shortened(item, depth + 1) for name, item in list(value.items())[:50]}
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return cut(str(value), 500)
    return value
