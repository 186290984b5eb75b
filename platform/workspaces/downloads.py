"""Answers that the browser saves as a file, and zips that are made while they are sent."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from trainers.storage import Storage

CHUNK = 1 << 20
Entry = tuple[str, Iterable[bytes]]


class _Pipe(io.RawIOBase):
    """What the zip writes into: it keeps only what has not been sent yet."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.waiting += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self.waiting)
        self.waiting.clear()
        return data


def zip_of(entries: Iterable[Entry], compression: int = zipfile.ZIP_STORED) -> Iterator[bytes]:
    """A zip of ``(name, blocks)``, never whole in memory; each entry's blocks are asked for when its turn comes."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", compression, allowZip64=True) as archive:
        for name, blocks in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as target:
                for block in blocks:
                    target.write(block)
                    yield pipe.take()
    yield pipe.take()


def file_stream(storage: Storage, key: str, start: int = 0) -> Iterator[bytes]:
    """The bytes of one stored object, from byte ``start`` on."""
    with storage.open_read(key) as source:
        source.seek(start)
        while block := source.read(CHUNK):
            yield block


def download(
    request: HttpRequest, chunks: Iterator[bytes], file_name: str, content_type: str = "application/octet-stream"
) -> StreamingHttpResponse:
    """An answer that the browser saves under ``file_name``, whoever chose that name."""
    # Under ASGI Django would collect an ordinary iterator whole before it sends the first byte.
    body: Any = _one_by_one(chunks) if isinstance(request, ASGIRequest) else chunks
    response = StreamingHttpResponse(body, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(True, plain_name(file_name)) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def plain_name(text: str) -> str:
    """``text`` as a file name that every system takes: no path, no control characters, not too long."""
    kept = "".join(
        c if unicodedata.category(c)[0] != "C" and c not in '\\/:*?"<>|' else "-"
        for c in unicodedata.normalize("NFC", text)
    )
    stem, dot, ending = kept.strip(" .").rpartition(".")
    if not dot or len(ending) > 10:
        stem, dot, ending = kept.strip(" ."), "", ""
    while len(stem.encode()) > 180:
        stem = stem[:-1]
    return f"{stem}{dot}{ending}" or "file"


async def _one_by_one(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    take = sync_to_async(lambda: next(chunks, None), thread_sensitive=False)
    while (block := await take()) is not None:
        yield block
