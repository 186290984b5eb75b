"""Celery tasks: thin doors to the services, each short and idempotent."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task


@shared_task
def dispatch_grant(grant_id: str) -> None:
    from jobs.dispatch import grant_dispatch

    grant_dispatch(grant_id=UUID(grant_id))


@shared_task
def finish_job(job_id: str) -> None:
    from jobs.finish import job_finish

    job_finish(job_id=UUID(job_id))


@shared_task
def make_merged(version_id: str) -> None:
    from jobs.merge_run import merged_make

    merged_make(version_id=UUID(version_id))
