"""Folders in storage that nothing needs any more: noted with the deletion, removed after it, and tried again."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from django.conf import settings
from django.db import transaction

from catalog.models import Checkpoint, Discarded, ModelVersion
from trainers.storage import Storage, StorageError

logger = logging.getLogger(__name__)
AT_ONCE = 100


def discard(uris: Iterable[str]) -> None:
    """Have these folders removed once the caller's transaction holds; what another row refers to is kept."""
    wanted = sorted({uri for uri in uris if uri})
    if wanted:
        rows = Discarded.objects.bulk_create([Discarded(uri=uri) for uri in wanted])
        transaction.on_commit(lambda: discarded_remove([row.pk for row in rows]))


def discarded_remove(ids: list[int] | None = None) -> int:
    """Remove what was noted (all of it, or these notes); what storage does not let go stays noted. How many went."""
    rows = Discarded.objects.order_by("pk")
    if ids is not None:
        rows = rows.filter(pk__in=ids)
    storage = Storage(settings.STORAGE_URL)
    gone = 0
    for row in rows[:AT_ONCE]:
        try:
            if not _needed(row.uri):
                storage.delete_folder(row.uri)
        except StorageError:
            logger.warning("%s is not used any more, but storage did not let it go; it is tried again", row.uri)
            continue
        row.delete()
        gone += 1
    return gone


def _needed(uri: str) -> bool:
    return Checkpoint.objects.filter(uri=uri).exists() or ModelVersion.objects.filter(merged_uri=uri).exists()
