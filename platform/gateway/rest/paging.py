"""Listings: the newest first, page by page, with a cursor that stays right while rows are added."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from pydantic import Field

from gateway.rest.errors import RestError

M = TypeVar("M", bound=Model)
LARGEST = 200
Limit = Annotated[int, Field(ge=1, le=LARGEST, description="How many at most.")]
Cursor = Annotated[str | None, Field(max_length=200, description="`next` of the page before.")]


def page(rows: QuerySet[M], cursor: str | None, limit: int) -> tuple[list[M], str | None]:
    """Up to ``limit`` rows after the cursor, and the cursor of the next page (None at the end).

    The rows must have ``created_at`` and a UUID ``id``. Raises 422 for a cursor that no answer gave.
    """
    if cursor:
        at, id = _read(cursor)
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, id__lt=id))
    found = list(rows.order_by("-created_at", "-id")[: limit + 1])
    if len(found) <= limit:
        return found, None
    last: Any = found[limit - 1]
    return found[:limit], _write(last.created_at, last.pk)


def _write(at: datetime, id: UUID) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{id}".encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[datetime, UUID]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, id = text.partition("|")
        value = datetime.fromisoformat(at)
        if value.tzinfo is None:
            raise ValueError("no time zone")
        return value, UUID(id)
    except (ValueError, binascii.Error, OverflowError):
        message = "is none; send what `next` of the last answer gave"
        raise RestError(422, "The cursor is not usable.", fields=[("cursor", message)]) from None
