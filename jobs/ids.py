"""Ids as addresses, forms and specs carry them: texts from strangers, of which some are none."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


def uuid_of(text: str) -> UUID | None:
    """The id that a text is; None for one that is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def read_ids(texts: Iterable[str], most: int) -> list[UUID]:
    """The ids in ``a,b`` and repeated fields, each once, in their order; what is none is left out."""
    parts = ",".join(texts).split(",")[: 2 * most]
    return list(dict.fromkeys(id for part in parts if (id := uuid_of(part.strip())) is not None))[:most]
