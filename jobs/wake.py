"""Nudges to Celery: ids at most. They may be lost: a sweep, or Celery's own schedule, finds the work anyway."""

from __future__ import annotations

from uuid import UUID


def grant_offered(grant_id: UUID) -> None:
    """Have the grant's driver started."""
    from jobs.tasks import dispatch_grant

    dispatch_grant.delay(str(grant_id))


def job_finishing(job_id: UUID) -> None:
    """Have the job's model, report and mail made."""
    from jobs.tasks import finish_job

    finish_job.delay(str(job_id))
