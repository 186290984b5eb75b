"""Prompts that two files share: what measures a model must not be in what it learns from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

from trainers.data.columns import ColumnMap, NoSuchColumn, choose_columns
from trainers.data.formats import open_records
from trainers.data.loading import first_records
from trainers.data.record import RowFault
from trainers.data.rows import DataRow, build_row
from trainers.data.source import UnreadableFile
from trainers.recipes.context import prompt_text
from trainers.spec import Columns

EXAMPLES = 20
REMEMBERED = 2_000_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with its name and the columns chosen by hand."""

    file: BinaryIO
    name: str
    columns: Columns | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """A prompt that stands in both files, with the line of its first row in each."""

    line: int
    other_line: int
    prompt: str


@dataclass(slots=True)
class Overlap:
    """Of ``rows`` in the first file, ``shared`` have a prompt of the second, which has ``others`` different ones."""

    rows: int = 0
    others: int = 0
    shared: int = 0
    examples: list[Shared] = field(default_factory=list)


def overlap(first: DataFile, second: DataFile) -> Overlap:
    """Compare two files by their prompts, however those are spaced, capitalised or encoded; bad rows are passed over.

    Reads each once; what it keeps in memory is 8 bytes and a line of each prompt of the second, two million at most.
    """
    known: dict[int, int] = {}
    for row in _rows(second):
        if len(known) >= REMEMBERED:
            break
        known.setdefault(_short(row), row.line)
    found = Overlap(others=len(known))
    for row in _rows(first):
        found.rows += 1
        line = known.get(_short(row))
        if line is None:
            continue
        found.shared += 1
        if len(found.examples) < EXAMPLES:
            said = row.text if row.text is not None else prompt_text(row.prompt_messages)
            found.examples.append(Shared(row.line, line, said[:300]))
    return found


def _short(row: DataRow) -> int:
    return int(row.fingerprint()[:16], 16)


def _rows(data: DataFile) -> Iterator[DataRow]:
    try:
        records = open_records(data.file, data.name).records
        first, samples = first_records(records)
        using = choose_columns(samples, data.columns) if samples else ColumnMap()
        if not using.usable:
            return
        for record in chain(first, records):
            if record.columns is None:
                continue
            try:
                yield build_row(record.line, record.columns, using)
            except RowFault:
                continue
    except (UnreadableFile, NoSuchColumn):
        return
