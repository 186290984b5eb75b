"""JSON files: an array of objects, or an object with one such array in it, read element by element.

An element is parsed as soon as enough text for it is there, so that a file of any size needs memory for one row only.
After a syntax error the rest of the file cannot be told apart: reading stops there, with the line.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

from trainers.data.record import Record, as_record, doubled_fault, doubled_name, json_fault
from trainers.data.source import ROW_BYTES, Source, UnreadableFile

_SPACE = " \t\r\n"
_ADVICE = "Correct the file there, or save it as JSONL: then one broken line spoils one row only."


class JsonReader:
    """A cursor over the text of the file: ``_text[_at:]`` is what has been read but not used."""

    def __init__(self, source: Source) -> None:
        self._chunks = source.chunks()
        # Bytes that are not UTF-8 become lone surrogates, which later mark the row that has them.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._json = json.JSONDecoder(object_pairs_hook=self._object)
        self._doubled: str | None = None  # a name that stands twice in the value read last
        self._text, self._at, self._line = "", 0, 1
        self._ended = False

    def records(self) -> Iterator[Record]:
        if self._next() == "{":
            yield from self._records_of_object()
        else:
            yield from self._records_of_array()
        if self._next():
            self._fail("there is more after the end of the list")

    def _records_of_array(self) -> Iterator[Record]:
        self._expect("[")
        if self._next() == "]":
            self._use(1)
            return
        while True:
            self._next()
            line = self._line
            value = self._value()
            if self._doubled is not None:
                yield Record(line, None, doubled_fault(self._doubled))
            else:
                yield as_record(line, value)
            if self._next() == "]":
                self._use(1)
                return
            self._expect(",")

    def _records_of_object(self) -> Iterator[Record]:
        """The rows are the one member that is a list of objects; other members are passed over."""
        self._expect("{")
        source: str | None = None
        while self._next() != "}":
            name = self._value()
            if not isinstance(name, str):
                self._fail("expecting the name of a member")
            self._expect(":")
            if self._next() == "[" and self._list_of_objects():
                if source is not None:
                    self._fail(f"there are two lists of rows, {source!r} and {name!r}")
                source = name
                yield from self._records_of_array()
            else:
                self._value()
            if self._next() != "}":
                self._expect(",")
        self._use(1)
        if source is None:
            message = "The file is one JSON object without a list of rows in it."
            raise UnreadableFile(message, "Write an array of objects, or JSONL with one object per line.")

    def _list_of_objects(self) -> bool:
        """Whether the list that begins here has an object first."""
        ahead = self._at + 1
        while True:
            while ahead < len(self._text) and self._text[ahead] in _SPACE:
                ahead += 1
            if ahead < len(self._text):
                return self._text[ahead] == "{"
            taken = self._at
            if not self._more():
                return False
            ahead -= taken

    def _value(self) -> Any:
        """The value that begins here. More text is read in growing steps, so that the work stays linear."""
        wanted = 1 << 16
        while True:
            self._doubled = None
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                failure = error
            except (ValueError, RecursionError):
                self._fail("nested too deeply, or a number with thousands of digits")
            else:
                # A number or a word at the very end of the text may go on in the next piece.
                if end < len(self._text) or self._ended:
                    self._use(end - self._at)
                    return value
                failure = json.JSONDecodeError("Cut off", self._text, end)
            if self._ended:
                self._use(failure.pos - self._at)
                self._fail(json_fault(failure))
            if len(self._text) - self._at > ROW_BYTES:
                self._fail(f"the row that begins here has an error in it, or is longer than {ROW_BYTES >> 20} MiB")
            while len(self._text) - self._at < wanted and self._more():
                continue
            wanted *= 4

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            self._doubled = doubled_name(pairs)
        return found

    def _next(self) -> str:
        """The next character that is no space, without using it; empty at the end of the file."""
        while True:
            start = self._at
            while start < len(self._text) and self._text[start] in _SPACE:
                start += 1
            self._use(start - self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _expect(self, character: str) -> None:
        found = self._next()
        if found != character:
            self._fail(f"expecting {character!r}" + ("" if found else ", but the file ends"))
        self._use(1)

    def _use(self, count: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def _more(self) -> bool:
        """Read one more piece of the file, letting go of what has been used; False at its end."""
        if self._ended:
            return False
        chunk = next(self._chunks, None)
        self._ended = chunk is None
        added = self._decoder.decode(chunk or b"", final=self._ended)
        self._text, self._at = self._text[self._at :] + added, 0
        return bool(added) or not self._ended

    def _fail(self, reason: str) -> Any:
        column = self._at - self._text.rfind("\n", 0, self._at)
        message = (
            f"The JSON is broken at line {self._line}, character {column}: {reason}. Nothing after it can be read."
        )
        raise UnreadableFile(message, _ADVICE, self._line, "broken_json")
