"""What an upload goes through before it is data: a local copy within the limit, and a lock per stored object."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.db import connection
from django.utils.translation import gettext as _

from workspaces import formats
from workspaces.errors import Refused

CHUNK = 1 << 20


@contextmanager
def spooled(file: IO[bytes], at_most: int) -> Iterator[Path]:
    """The stream as a local file, gone afterwards. Raises :class:`Refused` when it has more than ``at_most`` bytes."""
    with tempfile.NamedTemporaryFile(prefix="tuneyard-upload-") as spool:
        size = 0
        while block := file.read(CHUNK):
            size += len(block)
            if size > at_most:
                raise Refused(
                    _("The file is larger than %(limit)s, the most this installation accepts.")
                    % {"limit": formats.size(at_most)},
                    "file",
                )
            spool.write(block)
        if not size:
            raise Refused(_("The file is empty."), "file")
        spool.flush()
        yield Path(spool.name)


def lock_object(key: str) -> None:
    """Until the transaction ends, nobody else stores or removes this object."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"object:{key}"])
