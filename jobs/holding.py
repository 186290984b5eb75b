"""What jobs keep for a team: the jobs with all that happened in them, their reports, journals and mails."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from jobs.models import Attempt, Job, Submission, Sweep, SweepMember, TimelineEntry
from jobs.services import HOLDER, job_cancel
from jobs.states import TERMINAL
from records import services as records
from records.models import LogLine, MetricPoint, Rollout, Series, Tag
from trainers.runtime.payload import attempt_folder, checkpoint_prefix
from trainers.runtime.segments import journal_prefix
from trainers.storage import Storage
from workspaces.closing import messages_forget
from workspaces.holdings import Holding
from workspaces.models import User, Workspace


class JobsHolding(Holding):
    name = "jobs"

    def tables(self, workspace: Workspace) -> Iterable[tuple[str, QuerySet[Any]]]:
        jobs = _jobs(workspace)
        yield "jobs", jobs
        yield "attempts", Attempt.objects.filter(job__in=jobs)
        yield "timeline", TimelineEntry.objects.filter(job__in=jobs)
        yield "submissions", Submission.objects.filter(job__in=jobs)
        yield "sweeps", Sweep.objects.filter(project__workspace=workspace)
        yield "sweep_members", SweepMember.objects.filter(job__in=jobs)
        of_jobs = {"subject_kind": HOLDER, "subject_id__in": jobs.values("pk")}
        series = Series.objects.filter(**of_jobs)
        yield "series", series
        yield "points", MetricPoint.objects.filter(series__in=series)
        yield "rollouts", Rollout.objects.filter(**of_jobs)
        yield "log", LogLine.objects.filter(**of_jobs)
        yield "tags", Tag.objects.filter(**of_jobs)

    def tables_of_person(self, user: User) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "jobs", Job.objects.filter(submitted_by=user)
        yield "timeline", TimelineEntry.objects.filter(actor=user)
        yield "sweeps", Sweep.objects.filter(submitted_by=user)

    def files(self, workspace: Workspace) -> Iterable[str]:
        """Reports; journals say nothing that the tables do not, and hold what a run wrote before it was masked."""
        yield from _jobs(workspace).exclude(report_key="").values_list("report_key", flat=True)

    def stop(self, workspace: Workspace, actor: User | None) -> None:
        for job in _jobs(workspace).exclude(state__in=TERMINAL):
            job_cancel(job=job, actor=actor, reason="Its workspace was deleted.")

    def busy(self, workspace: Workspace) -> bool:
        jobs = _jobs(workspace)
        return jobs.exclude(state__in=TERMINAL).exists() or Attempt.objects.filter(job__in=jobs, ended_at=None).exists()

    def remove(self, workspace: Workspace) -> None:
        jobs = _jobs(workspace)
        ids = list(jobs.values_list("pk", flat=True))
        storage = Storage(settings.STORAGE_URL)
        for job_id in ids:
            storage.delete_folder(f"reports/{job_id}")
        for attempt_id, number in list(Attempt.objects.filter(job__in=jobs).values_list("pk", "number")):
            storage.delete_folder(journal_prefix(str(attempt_id), number))
            # Also what an attempt wrote and nobody noted.
            storage.delete_folder(checkpoint_prefix(str(attempt_id), number))
            shutil.rmtree(attempt_folder(settings.WORK_DIR, str(attempt_id)), ignore_errors=True)
        records.forget(subject_kind=HOLDER, subject_ids=ids)
        messages_forget(f"job:{job_id}:" for job_id in ids)
        jobs.delete()
        Sweep.objects.filter(project__workspace=workspace).delete()

    def forget_person(self, user_id: UUID, labels: Iterable[str], stand_in: str) -> None:
        TimelineEntry.objects.filter(actor_id=user_id).update(actor_label=stand_in)


def _jobs(workspace: Workspace) -> QuerySet[Job]:
    return Job.objects.filter(project__workspace=workspace)
