"""Asking for the merged weights of a model version; ``jobs.merge_run`` makes them."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from catalog.models import ModelVersion
from catalog.registry import merged_failed, merged_request
from workspaces.models import User


def merged_ask(*, version: ModelVersion, actor: User) -> None:
    """Have the merged weights made, unless they are there or being made."""
    with transaction.atomic():
        if merged_request(version=version, actor=actor):
            transaction.on_commit(lambda: _wake(version.pk))


def _wake(version_id: UUID) -> None:
    from jobs.tasks import make_merged

    try:
        make_merged.delay(str(version_id))
    except Exception as error:
        merged_failed(version=ModelVersion(pk=version_id), error=f"No worker could be reached: {error}")
