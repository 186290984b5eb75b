"""Reads gzip as a stream, and stops at a file that unpacks to far more than any data would."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO

from trainers.data.faults import UnreadableFile

SURELY_FINE_BYTES = 256 << 20
LARGEST_RATIO = 200


class Rejoined(io.RawIOBase):
    """A stream of which the beginning was read already, as if it had not been."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        super().__init__()
        self._start, self._file, self._taken = start, file, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._start:
            data, self._start = (self._start, b"") if size < 0 else (self._start[:size], self._start[size:])
            data += self._file.read() if size < 0 else b""
        else:
            data = self._file.read(size)
        self._taken += len(data)
        return data

    def tell(self) -> int:
        return self._taken


class Unpacked:
    """The unpacked bytes of a gzip file (all its members), to be read once from front to back.

    ``read`` raises :class:`UnreadableFile` where the file is damaged, cut off, or a bomb.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._packed = file
        self._gzip = gzip.GzipFile(fileobj=file, mode="rb")
        self._size = 0

    def read(self, size: int) -> bytes:
        try:
            data = self._gzip.read(size)
        except EOFError as error:
            raise UnreadableFile("The gzip file is cut off.", "Upload it again, or unpack it first.") from error
        except (OSError, zlib.error) as error:
            raise UnreadableFile("The gzip file is damaged.", "Pack it again, or unpack it first.") from error
        self._size += len(data)
        if self._size > SURELY_FINE_BYTES and self._size > LARGEST_RATIO * max(1, self._packed.tell()):
            raise UnreadableFile(
                f"The gzip file unpacks to more than {LARGEST_RATIO} times its size.",
                "Unpack it first, should it really be data.",
            )
        return data
