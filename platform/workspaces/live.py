"""Ending open sockets when a person's rights change: each socket of the person looks at its rights again, at once.

A socket joins ``group_of(user_id)`` and answers ``access.changed`` by asking ``access`` anew. The message may be lost;
sockets also ask again by themselves every few seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

logger = logging.getLogger(__name__)


def group_of(user_id: UUID) -> str:
    """The Channels group of everything a person has open."""
    return f"person.{user_id.hex}"


def access_changed(user_ids: Iterable[UUID]) -> None:
    """Make the sockets of these people look at their rights again, once the caller's transaction is committed."""
    people = list(user_ids)
    transaction.on_commit(lambda: _send(people), robust=True)


def _send(user_ids: list[UUID]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    for user_id in user_ids:
        try:
            async_to_sync(layer.group_send)(group_of(user_id), {"type": "access.changed"})
        except Exception as error:
            logger.warning("the sockets of person %s will notice later: %s", user_id, error)
