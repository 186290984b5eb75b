"""Reads of a job's checkpoints; the caller has passed the door to the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404

from catalog.archive import zip_stream
from catalog.models import Checkpoint
from jobs.models import Job
from jobs.services import HOLDER
from trainers.storage import Storage
from workspaces.downloads import plain_name


def checkpoint_of(job: Job, checkpoint_id: UUID) -> Checkpoint:
    """The job's checkpoint with this id. Raises ``Http404`` for any other."""
    found = Checkpoint.objects.filter(pk=checkpoint_id, made_by_kind=HOLDER, made_by_id=job.pk).first()
    if found is None:
        raise Http404("This job has no such checkpoint; it may have been deleted for a newer one.")
    return found


def checkpoint_packed(job: Job, checkpoint: Checkpoint) -> tuple[str, Iterator[bytes]]:
    """All files of a checkpoint as one zip: its name, and the zip as it is made."""
    name = plain_name(f"{job.name}-{checkpoint.name}")
    files = [file["name"] for file in checkpoint.files]
    return f"{name}.zip", zip_stream(Storage(settings.STORAGE_URL), checkpoint.uri, files, name)


def checkpoint_rows(job: Job) -> list[dict[str, Any]]:
    """Newest first. ``can_start``: a new job can start from it, since it holds an adapter that others can load."""
    rows = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=job.pk).order_by("-step", "-epoch", "-final")
    return [
        {
            "id": row.pk,
            "name": row.name,
            "step": row.step,
            "attempt": row.epoch,
            "created_at": row.taken_at or row.created_at,
            "size": row.size,
            "final": row.final,
            "kept": row.kept,
            "damaged": row.damaged,
            "format": row.format,
            "can_start": row.format == "peft" and not row.damaged,
        }
        for row in rows
    ]
