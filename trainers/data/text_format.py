"""Plain text files: a row for every paragraph, or for every line where no line is empty."""

from __future__ import annotations

from collections.abc import Iterator

from trainers.data.record import Record, RowFault, decoded
from trainers.data.source import ROW_BYTES, Source

COLUMN = "text"


def text_records(source: Source) -> Iterator[Record]:
    by_line = b"\n\n" not in source.head.replace(b"\r\n", b"\n")
    held: list[bytes] = []
    first = size = 0
    fault: RowFault | None = None
    for line in source.lines():
        content = line.content
        blank = content is not None and not content.strip()
        if (held or fault) and (blank or by_line):
            yield _record(first, held, fault)
            held, size, fault = [], 0, None
        if blank:
            continue
        if not held and fault is None:
            first = line.number
        size += len(content or b"")
        if content is None or size > ROW_BYTES:
            held, fault = [], Record.too_long(first).fault
        elif fault is None:
            held.append(content.rstrip(b"\r"))
    if held or fault:
        yield _record(first, held, fault)


def _record(line: int, held: list[bytes], fault: RowFault | None) -> Record:
    if fault is not None:
        return Record(line, None, fault)
    text = decoded(b"\n".join(held))
    return Record(line, None, text) if isinstance(text, RowFault) else Record(line, {COLUMN: text})
