"""What is noted of a job when it is submitted, to be told later: its original, and what was foretold of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from jobs.estimate import estimate_job
from jobs.models import Job, Submission
from jobs.spec_diff import Change, changes_between_stored
from trainers.spec import TaskSpec


@dataclass(frozen=True)
class Foretold:
    """What was said before the start; ranges of seconds and cost, None where nothing could be said."""

    seconds: tuple[float, float] | None
    cost: tuple[Decimal, Decimal] | None
    currency: str
    learned_from: int

    def right(self, seconds: float) -> bool | None:
        """Whether a job that took so long ended inside the range."""
        return None if self.seconds is None else self.seconds[0] <= seconds <= self.seconds[1]


def submission_note(*, job: Job, task: TaskSpec, copied_from: Job | None = None) -> None:
    """Called in the transaction that makes the job."""
    estimate = estimate_job(task=task, base=job.base_model, rows=job.dataset_version.usable_rows)
    said = {
        "seconds": estimate.seconds,
        "cost": [str(value) for value in estimate.cost] if estimate.cost else None,
        "currency": estimate.currency,
        "learned_from": estimate.learned_from,
    }
    known = copied_from if copied_from is not None and copied_from.project_id == job.project_id else None
    Submission.objects.create(job=job, copied_from=known, estimate=said)


def foretold(submission: Submission | None) -> Foretold | None:
    said = submission.estimate if submission else None
    if not said:
        return None
    seconds, cost = said.get("seconds"), said.get("cost")
    return Foretold(
        seconds=(float(seconds[0]), float(seconds[1])) if seconds else None,
        cost=(Decimal(cost[0]), Decimal(cost[1])) if cost else None,
        currency=said.get("currency") or "USD",
        learned_from=int(said.get("learned_from") or 0),
    )


def origin_of(job: Job) -> Submission | None:
    return Submission.objects.select_related("copied_from").filter(job=job).first()


def changes_of_copy(job: Job, original: Job) -> list[Change]:
    """What the job changed in the one that it was copied from; nothing for specs of an older version."""
    return changes_between_stored(original.spec, job.spec) or []
