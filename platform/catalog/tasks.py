"""Celery tasks: thin doors to the services, each short and idempotent."""

from __future__ import annotations

from celery import shared_task


@shared_task
def remove_discarded() -> None:
    from catalog.discarding import discarded_remove

    discarded_remove()
