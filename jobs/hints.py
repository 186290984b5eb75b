"""Telling open pages that a job has something new. A hint may be lost: pages pull what they lack by cursor."""

from __future__ import annotations

import logging
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

logger = logging.getLogger(__name__)


def group_of(job_id: UUID) -> str:
    """The Channels group of a job's open pages."""
    return f"job.{job_id.hex}"


def after_commit(job_id: UUID, cursor: str = "") -> None:
    """Send the hint once the caller's transaction is committed."""
    transaction.on_commit(lambda: send(job_id, cursor))


def send(job_id: UUID, cursor: str = "") -> None:
    """Send a hint now; without a broker nothing is sent, and pages fall back to asking."""
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(group_of(job_id), {"type": "hint", "cursor": cursor})
    except Exception as error:
        logger.warning("no hint for job %s: %s", job_id, error)
