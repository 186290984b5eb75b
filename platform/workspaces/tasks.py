"""Celery tasks: thin doors to the services, each short and idempotent."""

from __future__ import annotations

from celery import shared_task


@shared_task
def remove_closed_workspaces() -> None:
    from workspaces.closing import closed_remove

    closed_remove()
