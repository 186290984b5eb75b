"""A folder of results that can be made again, by the hash of what they were made from, bounded by its size.

Several processes may share a folder: an entry appears whole or not at all, and may vanish at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

_KEY = re.compile(r"[0-9a-f]{64}")
_KEPT = 0.9


def content_key(value: Any) -> str:
    """The key of a JSON-like value: equal values have equal keys, whatever the order of their fields."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class ContentCache:
    """Entries of bytes under :func:`content_key`. Safe to use from several threads; never raises for a full disk.

    When the folder grows past ``max_bytes``, what was not used for longest goes first.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._size: int | None = None

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found something; 0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            data = None
        with self._lock:
            if data is None:
                self.misses += 1
            else:
                self.hits += 1
        return data

    def put(self, key: str, data: bytes) -> None:
        if len(data) > self.max_bytes // 4:  # one entry must not push out all the others
            return
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(name).replace(path)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            with self._lock:
                self._size = self._measured() if self._size is None else self._size + len(data)
                if self._size > self.max_bytes:
                    self._size = self._shrunk()

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a cache")
        return self.folder / key[:2] / key

    def _entries(self) -> list[tuple[float, int, Path]]:
        """``(last used, size, path)`` of every entry that is still there."""
        found = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found

    def _measured(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _shrunk(self) -> int:
        entries = sorted(self._entries(), key=lambda entry: entry[0])
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self.max_bytes * _KEPT:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
        return total
