"""Which checkpoints of a job stay: the newest ones by count and size, those a person keeps, and the final one."""

from __future__ import annotations

import logging
from functools import partial

from django.conf import settings
from django.db import transaction

from catalog.models import Checkpoint
from jobs.models import Attempt, Job
from jobs.services import HOLDER
from trainers.runtime.payload import checkpoint_prefix
from trainers.storage import Storage, StorageError
from workspaces.models import User
from workspaces.services import audit

logger = logging.getLogger(__name__)
GIGABYTE = 10**9


def checkpoints_prune(*, job: Job) -> None:
    """Delete the automatic checkpoints that the task does not ask to keep; the files go after the rows.

    The newest whole one stays whatever the limits say: a run must be able to go on from it.
    """
    limits = job.spec["checkpointing"]
    most_bytes = limits.get("keep_gb") and limits["keep_gb"] * GIGABYTE
    rows = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=job.pk, final=False, kept=False)
    count, size = 0, 0
    for row in rows.order_by("damaged", "-epoch", "-step"):
        count, size = count + 1, size + row.size
        fits = count <= limits["keep"] and (not most_bytes or size <= most_bytes)
        if count > 1 and not fits:
            transaction.on_commit(partial(delete_files, row.uri))
            row.delete()


@transaction.atomic
def checkpoint_keep(*, checkpoint: Checkpoint, job: Job, keep: bool, actor: User) -> None:
    """Protect a checkpoint from being deleted for newer ones, or give it free again."""
    if Checkpoint.objects.filter(pk=checkpoint.pk).exclude(kept=keep).update(kept=keep):
        action = "checkpoint.keep" if keep else "checkpoint.unkeep"
        audit(workspace=job.project.workspace, actor=actor, action=action, obj=job, detail={"name": checkpoint.name})


def unfinished_delete(*, attempt: Attempt) -> None:
    """Remove what an attempt that is dead had begun to store: folders below its prefix that are no checkpoint's."""
    prefix = checkpoint_prefix(str(attempt.pk), attempt.number)
    known = set(Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=attempt.job_id).values_list("uri", flat=True))
    try:
        keys = Storage(settings.STORAGE_URL).list(prefix)
        begun = {f"{prefix}/{key.removeprefix(prefix).lstrip('/').partition('/')[0]}" for key in keys}
    except StorageError as error:
        logger.warning("what attempt %s had begun to store may stay at %s: %s", attempt.pk, prefix, error)
        return
    for uri in sorted(begun - known):
        delete_files(uri)


def delete_files(uri: str) -> None:
    """Remove the files of a checkpoint; where storage does not do it now they stay, and the log says so."""
    try:
        Storage(settings.STORAGE_URL).delete_folder(uri)
    except StorageError as error:
        logger.warning("the files of an old checkpoint stay at %s: %s", uri, error)
