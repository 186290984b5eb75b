"""What a run would have written, as rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from compute.models import Grant, Request
from jobs.models import Attempt, Job
from jobs.services import job_transition
from jobs.states import State
from records.models import LogLine, MetricPoint, Rollout, Series


def run_job(job: Job, *, steps: int = 10, number: int = 1) -> Attempt:
    """An attempt that has begun to run, without any process behind it."""
    request = Request.objects.filter(holder_id=job.pk, epoch=number).first() or Request.objects.create(
        holder_kind="job", holder_id=job.pk, epoch=number, device_kind="cpu", devices=1, tier="reserved"
    )
    grant, _ = Grant.objects.get_or_create(request=request)
    attempt = Attempt.objects.create(
        job=job, number=number, grant=grant, driver=f"job-{number}", started_at=timezone.now()
    )
    if job.state == State.QUEUED:
        for state in (State.PLACING, State.STARTING, State.RUNNING):
            job_transition(job_id=job.pk, to=state, reason="", attempt=number)
    Job.objects.filter(pk=job.pk).update(total_steps=steps)
    job.refresh_from_db()
    return attempt


def write_points(
    job: Job, attempt: Attempt, values: dict[str, list[float]], *, first_step: int = 1, start: datetime | None = None
) -> None:
    """One journal event per step, as supervision stores it; the cursor moves along."""
    start = start or timezone.now() - timedelta(minutes=10)
    length = max(len(column) for column in values.values())
    for key, column in values.items():
        series, _ = Series.objects.get_or_create(subject_kind="job", subject_id=job.pk, key=key)
        MetricPoint.objects.bulk_create(
            MetricPoint(
                series=series,
                attempt=attempt.number,
                seq=attempt.cursor + index + 1,
                step=first_step + index,
                value=value,
                at=start + timedelta(seconds=3 * index),
                active_s=2.0 * index,
                tokens=100 * (index + 1),
            )
            for index, value in enumerate(column)
        )
        series.points += len(column)
        series.last_step, series.last_value, series.last_at = first_step + len(column) - 1, column[-1], timezone.now()
        series.save()
    Attempt.objects.filter(pk=attempt.pk).update(cursor=attempt.cursor + length)
    attempt.refresh_from_db()
    Job.objects.filter(pk=job.pk).update(step=first_step + length - 1, fraction=0.5)
    job.refresh_from_db()


def write_log(job: Job, attempt: Attempt, texts: list[str], level: str = "info") -> None:
    for index, text in enumerate(texts, start=1):
        LogLine.objects.create(
            subject_kind="job",
            subject_id=job.pk,
            attempt=attempt.number,
            seq=attempt.cursor + index,
            level=level,
            text=text,
            at=timezone.now(),
        )
    Attempt.objects.filter(pk=attempt.pk).update(cursor=attempt.cursor + len(texts))
    attempt.refresh_from_db()


def write_rollouts(job: Job, attempt: Attempt, *, step: int, groups: int = 2, size: int = 4, **fields: Any) -> None:
    for group in range(groups):
        for index in range(size):
            reward = (index + group) % 2
            values = {
                "prompt": f"What is {group} + {index}?",
                "prompt_key": f"key {group}",
                "completion": f"It is {group + index}.",
                "answer": str(group + index),
                "reward": float(reward),
                "parts": {"right": float(reward)},
                "accurate": bool(reward),
                "tokens": 5 + index,
                "phase": "train",
                "truncated": index == 3,
            }
            Rollout.objects.create(
                subject_kind="job",
                subject_id=job.pk,
                attempt=attempt.number,
                seq=step * 1000 + group * size + index,
                step=step,
                group=group,
                index=index,
                at=timezone.now(),
                **(values | fields),
            )
