"""Where higher floors ask to be woken: a fact is committed first, the call only nudges, a tick finds it anyway."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

logger = logging.getLogger(__name__)
_granted: dict[str, Callable[[UUID], None]] = {}


def on_grant(holder_kind: str, call: Callable[[UUID], None]) -> None:
    """Register ``call(grant_id)`` for grants offered to holders of this kind."""
    _granted[holder_kind] = call


def grant_offered(holder_kind: str, grant_id: UUID) -> None:
    """Tell the holder's app of a committed grant; a failure here only delays it until the next tick."""
    call = _granted.get(holder_kind)
    if call is None:
        logger.warning("no app claims grants for holders of kind %r", holder_kind)
        return
    try:
        call(grant_id)
    except Exception:
        logger.warning("could not wake the holder of grant %s; the next tick will", grant_id, exc_info=True)
