"""Reads JSONL, JSON, CSV, Parquet and text as a stream of records, each with the line of the file on which it begins.

A format is a function from a :class:`~trainers.data.source.Source` to records; which one a file has is told by its
content first, and by its name only where the content leaves it open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, BinaryIO

from trainers.data.csv_format import CsvReader, is_table
from trainers.data.json_format import JsonReader
from trainers.data.parquet_format import MAGIC, ParquetReader
from trainers.data.record import Record, parsed
from trainers.data.source import Source, read_exactly
from trainers.data.text_format import text_records
from trainers.data.unpacking import Rejoined, Unpacked

_JSONL_NAMES = {".jsonl", ".ndjson", ".jsonlines"}
_TEXT_NAMES = {".txt", ".text", ".md"}
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class Opened:
    """A dataset file under way. ``details`` (encoding, delimiter ...) is complete when ``records`` is exhausted."""

    format: str
    records: Iterator[Record]
    details: dict[str, Any] = field(default_factory=dict)


def open_records(file: BinaryIO, name: str) -> Opened:
    """Detect the format and start reading. Raises :class:`UnreadableFile`, here or while reading.

    Parquet needs a file in which one can move about; all others are read from front to back.
    """
    start = read_exactly(file, len(MAGIC))
    whole: Any = file
    if file.seekable():
        file.seek(0)
        if start == MAGIC:
            return Opened("parquet", ParquetReader(file).records())
    else:
        whole = Rejoined(start, file)
    packed = start.startswith(_GZIP)
    source = Source(Unpacked(whole) if packed else whole)
    found = detect_format(source, _plain_name(name) if packed else name)
    opened = Opened(found, iter(()), {"encoding": source.encoding})
    opened.records = _READERS[found](source, opened.details)
    return opened


def detect_format(source: Source, name: str) -> str:
    """``jsonl``, ``json``, ``csv`` or ``text``."""
    suffix = PurePath(name).suffix.casefold()
    text = source.head.lstrip()
    if text[:1] == b"[":
        return "json" if suffix not in _JSONL_NAMES or not _first_line_is_whole(text) else "jsonl"
    if text[:1] != b"{":
        if suffix in _TEXT_NAMES and not is_table(source):
            return "text"
        return "jsonl" if suffix in _JSONL_NAMES else "csv"
    first, _, rest = text.partition(b"\n")
    if not rest.strip() and not source.complete:
        return "jsonl" if suffix in _JSONL_NAMES else "json"
    value = _loads(first)
    if isinstance(value, dict):
        alone = not rest.strip() and suffix not in _JSONL_NAMES
        return "json" if alone and _holds_rows(value, several=suffix == ".json") else "jsonl"
    goes_on = first.rstrip()[-1:] in (b"{", b"[", b",", b":")
    following = rest.lstrip().partition(b"\n")[0]
    return "jsonl" if not goes_on or isinstance(_loads(following), dict) else "json"


def _plain_name(name: str) -> str:
    """``rows.jsonl.gz`` is a ``rows.jsonl``."""
    path = PurePath(name)
    return path.stem if path.suffix.casefold() in (".gz", ".gzip") else name


def _holds_rows(value: dict[str, Any], *, several: bool) -> bool:
    """Whether an object is a wrapping around a list of rows, rather than a row with a chat in it."""
    lists = [item for item in value.values() if isinstance(item, list) and item and isinstance(item[0], dict)]
    chats = [item for item in lists if "role" in item[0] or "from" in item[0]]
    return not chats and (len(lists) == 1 or (several and bool(lists)))


def _first_line_is_whole(text: bytes) -> bool:
    return _loads(text.partition(b"\n")[0]) is not None


def _loads(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _read_jsonl(source: Source, details: dict[str, Any]) -> Iterator[Record]:
    for line in source.lines():
        if line.content is None:
            yield Record.too_long(line.number)
        elif line.content.strip():
            yield parsed(line.number, line.content)


def _read_json(source: Source, details: dict[str, Any]) -> Iterator[Record]:
    return JsonReader(source).records()


def _read_csv(source: Source, details: dict[str, Any]) -> Iterator[Record]:
    return CsvReader(source, details).records()


def _read_text(source: Source, details: dict[str, Any]) -> Iterator[Record]:
    return text_records(source)


_READERS: dict[str, Callable[[Source, dict[str, Any]], Iterator[Record]]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
    "text": _read_text,
}
