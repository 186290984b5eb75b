"""Downloads: stored files as one zip, made while it is sent, so that no size of model fills memory or disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainers.storage import Storage, check_key
from workspaces.downloads import file_stream, zip_of


def zip_stream(storage: Storage, prefix: str, names: Sequence[str], folder: str) -> Iterator[bytes]:
    """A zip of ``prefix/<name>`` for each name, under ``folder/``; stored, not packed, as weights do not shrink."""
    return zip_of((f"{folder}/{check_key(name)}", file_stream(storage, f"{prefix}/{name}")) for name in names)
