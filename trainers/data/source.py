"""A file read once, from front to back, in pieces of bounded size."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from trainers.data.faults import UnreadableFile

__all__ = ["CHUNK_BYTES", "HEAD_BYTES", "ROW_BYTES", "Line", "Readable", "Source", "UnreadableFile", "read_exactly"]

HEAD_BYTES = 64 << 10
CHUNK_BYTES = 1 << 20
ROW_BYTES = 4 << 20

_FOREIGN = (
    (b"PAR1", "a Parquet file inside of another file", "Upload the Parquet file itself."),
    (b"PARE", "an encrypted Parquet file", "Save it without encryption."),
    (b"PK\x03\x04", "an Excel workbook or a zip archive", "Save the sheet as CSV (UTF-8), or unpack the archive."),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "Save the sheet as CSV (UTF-8)."),
    (b"\x1f\x8b", "compressed with gzip twice", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it first, or use gzip."),
    (b"BZh", "compressed with bzip2", "Unpack it first, or use gzip."),
    (b"\xfd7zXZ\x00", "compressed with xz", "Unpack it first, or use gzip."),
    (b"ARROW1", "an Arrow file", "Save it as JSONL or CSV."),
    (b"%PDF", "a PDF document", "Save the rows as JSONL or CSV."),
    (b"GGUF", "a model file", "Upload data: JSONL, JSON, CSV or Parquet."),
)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Line(NamedTuple):
    """A line of the file, counted from 1, without its end; ``content`` is None when it is longer than a row may be."""

    number: int
    content: bytes | None


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Source:
    """A binary file with its first bytes looked at; UTF-16 is turned into UTF-8, and byte-order marks are dropped.

    Raises :class:`UnreadableFile` for what is empty or no text at all.
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.head = read_exactly(file, HEAD_BYTES)
        self.encoding = "utf-8"
        for magic, what, advice in _FOREIGN:
            if self.head.startswith(magic):
                raise UnreadableFile(f"This is {what}, not a text file with rows.", advice)
        if self.head.startswith(_UTF32):
            raise UnreadableFile("The file is encoded in UTF-32.", "Save it as UTF-8.")
        self._decoder: codecs.IncrementalDecoder | None = None
        if self.head[:2] in _UTF16:
            self.encoding = _UTF16[self.head[:2]]
            self._decoder = codecs.getincrementaldecoder(self.encoding)("replace")
            self.head = self._as_utf8(self.head[2:])
        elif self.head.startswith(codecs.BOM_UTF8):
            self.encoding = "utf-8-sig"
            self.head = self.head[3:]
        if not self.head.strip():
            raise UnreadableFile("The file is empty.", "Upload a file with at least one row.")
        if self.head.count(0) > len(self.head) // 10:
            if _looks_like_utf16(self.head):
                message = "The file looks like UTF-16 without the mark at its start that says so."
                raise UnreadableFile(message, "Save it as UTF-8.")
            raise UnreadableFile("This is not a text file.", "Upload JSONL, JSON, CSV or Parquet.")
        self.complete = len(self.head) < HEAD_BYTES
        """Whether the head is the whole file (false in doubt)."""
        self._old_line_ends = b"\r" in self.head and b"\n" not in self.head

    def chunks(self) -> Iterator[bytes]:
        """The file as UTF-8 (or what claims to be), from its start; to be called once."""
        yield self.head
        while data := self._file.read(CHUNK_BYTES):
            yield self._as_utf8(data)

    def lines(self, limit: int = ROW_BYTES) -> Iterator[Line]:
        """The lines of the file; one longer than ``limit`` bytes is passed over without being held in memory."""
        held: list[bytes] = []
        number, size = 1, 0
        for chunk in self.chunks():
            if self._old_line_ends:
                chunk = chunk.replace(b"\r", b"\n")
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                size += end - start
                yield Line(number, b"".join([*held, chunk[start:end]]) if size <= limit else None)
                held, number, size, start = [], number + 1, 0, end + 1
            size += len(chunk) - start
            if size <= limit:
                held.append(chunk[start:])
            else:
                held.clear()
        if size:
            yield Line(number, b"".join(held) if size <= limit else None)

    def _as_utf8(self, data: bytes) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data).encode("utf-8", "surrogatepass")


def read_exactly(file: Readable, size: int) -> bytes:
    """The next ``size`` bytes; fewer only where the file ends."""
    parts = bytearray()
    while len(parts) < size and (data := file.read(size - len(parts))):
        parts += data
    return bytes(parts)


def _looks_like_utf16(head: bytes) -> bool:
    """Whether nearly every second byte is NUL, as in Western text in UTF-16."""
    even, odd = (head[start::2].count(0) / max(1, len(head) // 2) for start in (0, 1))
    return max(even, odd) > 0.8 and min(even, odd) < 0.2
