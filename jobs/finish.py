"""The last step of a job that has trained: its model version, its report, its mail."""

from __future__ import annotations

import logging
from uuid import UUID

from django.conf import settings
from django.db import transaction

from catalog.models import Checkpoint
from catalog.registry import merged_record, model_version_create
from jobs import report
from jobs.models import Job
from jobs.services import HOLDER, job_transition
from jobs.states import State
from trainers.storage import Storage
from workspaces.vault import mask_of_project

logger = logging.getLogger(__name__)


def job_finish(*, job_id: UUID) -> None:
    """Finishing → succeeded; idempotent, and without effect in any other state."""
    job = Job.objects.select_related("project", "base_model", "submitted_by", "dataset_version__dataset").get(pk=job_id)
    if job.state != State.FINISHING:
        return
    checkpoint = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=job.pk, epoch=job.epoch, final=True).first()
    if checkpoint is None and job.spec.get("recipe") == "evaluate":
        _finish_measured(job)
        return
    if checkpoint is None:
        job_transition(
            job_id=job.pk,
            to=State.FAILED,
            only_from={State.FINISHING},
            reason="The training process reported its end without a final checkpoint, so there is no model.",
            advice="Start it again; if it happens twice, send the log to whoever keeps this installation running.",
            failure_kind="internal",
        )
        return
    key = _store_report(job)
    with transaction.atomic():
        version = model_version_create(
            project=job.project,
            name=job.name,
            checkpoint=checkpoint,
            base_model=job.base_model,
            made_by_kind=HOLDER,
            made_by_id=job.pk,
            evaluation=job.result or {},
        )
        if checkpoint.format == "full":
            merged_record(version=version, uri=checkpoint.uri)  # it is a whole model already
        done = job_transition(
            job_id=job.pk,
            to=State.SUCCEEDED,
            only_from={State.FINISHING},
            reason=report.headline(job),
            model_version=version,
            report_key=key,
        )
        if done is None:
            # Cancelled in the meantime: nobody wants the model, so it is not in the registry either.
            transaction.set_rollback(True)


def _finish_measured(job: Job) -> None:
    """A job that only measured makes a report and no model."""
    job_transition(
        job_id=job.pk,
        to=State.SUCCEEDED,
        only_from={State.FINISHING},
        reason=report.headline(job),
        report_key=_store_report(job),
    )


def _store_report(job: Job) -> str:
    """Where the report lies now, without what must not be seen."""
    key = f"reports/{job.pk}/{job.epoch}.html"
    Storage(settings.STORAGE_URL).put_bytes(key, mask_of_project(job.project_id).text(report.render(job)).encode())
    return key
