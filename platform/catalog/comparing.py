"""Compares two dataset versions by their prompts, within what a page may take."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from catalog.models import DatasetVersion
from catalog.previews import columns_by_hand
from trainers.data.leakage import DataFile, Overlap, overlap
from trainers.spec import Columns
from trainers.storage import Storage
from workspaces import formats
from workspaces.errors import Refused

LARGEST_BYTES = 200_000_000


def shared_prompts(version: DatasetVersion, other: DatasetVersion) -> Overlap:
    """The prompts of ``version`` that ``other`` holds as well.

    Raises :class:`Refused` for files too large to be read while somebody waits, ``StorageError`` when storage does not
    give them.
    """
    if version.size + other.size > LARGEST_BYTES:
        limit = formats.size(LARGEST_BYTES)
        raise Refused(
            _("The two files together have more than %(limit)s; a job compares them when it starts.") % {"limit": limit}
        )
    storage = Storage(settings.STORAGE_URL)
    with tempfile.TemporaryDirectory(prefix="tuneyard-compare-") as folder:
        paths = []
        for index, one in enumerate((version, other)):
            paths.append(storage.fetch_file(one.object_key, Path(folder) / str(index), one.sha256))
        with paths[0].open("rb") as first, paths[1].open("rb") as second:
            return overlap(
                DataFile(first, version.file_name, Columns(**columns_by_hand(version))),
                DataFile(second, other.file_name, Columns(**columns_by_hand(other))),
            )
