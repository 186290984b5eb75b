"""CSV files: delimiter and encoding found out, the first row holds the names, rows may span several lines."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import Any

from trainers.data.record import Record, RowFault
from trainers.data.source import ROW_BYTES, Line, Source, UnreadableFile

_DELIMITERS = (",", "\t", ";", "|")
_SAMPLE_ROWS = 50
# One setting for the whole process, as the module has no other; our own limit below is the one that counts.
csv.field_size_limit(2 * ROW_BYTES)


class CsvReader:
    """Rows of a CSV file. ``details`` gets ``encoding`` and ``delimiter``."""

    def __init__(self, source: Source, details: dict[str, Any]) -> None:
        self._source = source
        self._details = details
        self._lines = source.lines()
        self._again: deque[Line] = deque()
        self._raw: list[Line] = []  # the lines of the row being read, and their bytes
        self._size = 0
        self._fault: RowFault | None = None
        self._seen_utf8 = False
        self._details.setdefault("encoding", "utf-8")
        if not _is_utf8(source.head) and _decodes(source.head, "gb18030"):
            self._details["encoding"] = "gb18030"
        self._details["delimiter"] = self._delimiter()

    def records(self) -> Iterator[Record]:
        rows = self._rows()
        line, names, fault = next(rows, (1, [], None))
        if fault is not None or not any(name.strip() for name in names):
            raise UnreadableFile(
                "The first row of the file holds no column names.", "Put the names of the columns there."
            )
        header = _header(names)
        for line, fields, fault in rows:
            if fault is None and not any(value.strip() for value in fields):
                continue
            if fault is None and len(fields) != len(header):
                message = f"It has {len(fields)} fields, but the first row names {len(header)} columns."
                advice = "Put texts that hold the delimiter or a line break in double quotes."
                fault = RowFault("wrong_fields", message, advice)
            yield Record(line, None, fault) if fault else Record(line, dict(zip(header, fields, strict=True)))

    def _rows(self) -> Iterator[tuple[int, list[str], RowFault | None]]:
        """Rows with their first line. A quote that never closes spoils its own line, not the rest of the file."""
        while True:
            reader = csv.reader(self._texts(), delimiter=self._details["delimiter"])
            while True:
                self._raw, self._size, self._fault = [], 0, None
                try:
                    fields = next(reader, None)
                except _TooLong:
                    fields = []
                except csv.Error:
                    fields, self._fault = [], RowFault("broken_csv", "It is not valid CSV.", "Check its quotes.")
                if fields is None:
                    return
                first = self._raw[0].number
                if self._unclosed():
                    self._again.extendleft(reversed(self._raw[1:]))
                    advice = 'Close it, or write quotes inside a text twice ("").'
                    yield first, [], RowFault("open_quote", "A quote that opens here is never closed.", advice)
                    break
                yield first, fields, self._fault

    def _unclosed(self) -> bool:
        """Whether the row read last ended in the middle of a quoted text."""
        if self._size > ROW_BYTES:
            return True
        if self._fault is not None or not self._at_end():
            return False
        texts = [(line.content or b"").decode("utf-8", "replace") + "\n" for line in self._raw]
        try:
            list(csv.reader(texts, delimiter=self._details["delimiter"], strict=True))
        except csv.Error as error:
            return str(error) == "unexpected end of data"
        return False

    def _at_end(self) -> bool:
        if not self._again:
            following = next(self._lines, None)
            if following is None:
                return True
            self._again.append(following)
        return False

    def _texts(self) -> Iterator[str]:
        """The lines as text, those pushed back first; each is noted as part of the current row."""
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                return
            self._raw.append(line)
            if line.content is None:
                self._fault = Record.too_long(line.number).fault
                yield "\n"
                continue
            self._size += len(line.content)
            if self._size > ROW_BYTES:
                raise _TooLong
            yield self._decoded(line.content) + "\n"

    def _decoded(self, content: bytes) -> str:
        if b"\0" in content:
            self._fault = RowFault("nul", "It contains NUL bytes.", "Remove them; the file may be damaged.")
            content = content.replace(b"\0", b"")
        encoding = self._details["encoding"]
        if encoding == "gb18030":
            return self._strict(content, encoding)
        if not content.isascii():
            if not self._seen_utf8 and not _is_utf8(content) and _decodes(content, "gb18030"):
                self._details["encoding"] = "gb18030"  # all before was ASCII, which the two have in common
                return self._strict(content, "gb18030")
            self._seen_utf8 = True
        return self._strict(content, "utf-8")

    def _strict(self, content: bytes, encoding: str) -> str:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            message = f"It is not valid {encoding.upper()} (byte {error.start + 1} of line {self._raw[-1].number})."
            self._fault = RowFault("not_utf8", message, "Save the file as UTF-8, or correct this line.")
            return content.decode(encoding, "replace")

    def _delimiter(self) -> str:
        """The delimiter that splits the first rows into the most, and most regular, fields."""
        encoding = "gb18030" if self._details["encoding"] == "gb18030" else "utf-8"
        text = self._source.head.decode(encoding, "replace")
        lines = text.splitlines(keepends=True)
        lines = lines if self._source.complete or len(lines) < 2 else lines[:-1]
        return max(_DELIMITERS, key=lambda delimiter: _regularity(lines, delimiter))


def is_table(source: Source) -> bool:
    """Whether the first rows of a text have several fields each, and all equally many."""
    lines = source.head.decode("utf-8", "replace").splitlines(keepends=True)[:_SAMPLE_ROWS]
    scores = [_regularity(lines, delimiter) for delimiter in _DELIMITERS]
    return any(several and share == 1.0 for several, share, _ in scores)


class _TooLong(Exception):
    """A row over several lines that grows past the limit: as good as certainly a quote left open."""


def _regularity(lines: list[str], delimiter: str) -> tuple[bool, float, int]:
    try:
        rows = [row for row, _ in zip(csv.reader(lines, delimiter=delimiter), range(_SAMPLE_ROWS), strict=False) if row]
    except csv.Error:
        return False, 0.0, 0
    width = len(rows[0]) if rows else 0
    return width > 1, sum(len(row) == width for row in rows) / max(1, len(rows)), width


def _header(names: list[str]) -> list[str]:
    """Column names without surrounding space; the nameless and the doubled get a number."""
    header: list[str] = []
    for index, name in enumerate(names, start=1):
        name = name.strip() or f"column {index}"
        header.append(name if name not in header else f"{name} ({index})")
    return header


def _is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8, but for a character cut off at the end."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.end == len(data)
    return True


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.reason == "incomplete multibyte sequence" and len(data) - error.start < 4
    return True
