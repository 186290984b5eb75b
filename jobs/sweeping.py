"""Finding what a lost wake-up left lying: grants nobody claimed, jobs whose last step never ran."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.utils import timezone

from compute.models import Grant
from jobs import wake
from jobs.models import Attempt, Job
from jobs.services import HOLDER, job_transition
from jobs.states import State
from jobs.sweeps import sweep_advance, sweeps_unfinished

PATIENCE = timedelta(seconds=5)


def sweep() -> None:
    """End what has no process left, and send the wake-ups again; what they start is idempotent."""
    without_process = Job.objects.filter(~Exists(Attempt.objects.filter(job=OuterRef("pk"), ended_at=None)))
    for stopping, stopped in ((State.CANCELLING, State.CANCELLED), (State.PAUSING, State.PAUSED)):
        for job_id, reason in without_process.filter(state=stopping).values_list("pk", "reason"):
            job_transition(job_id=job_id, to=stopped, only_from={stopping}, reason=reason)
    late = timezone.now() - PATIENCE
    offered = Grant.objects.filter(state=Grant.State.OFFERED, request__holder_kind=HOLDER, created_at__lt=late)
    for grant_id in offered.values_list("pk", flat=True):
        wake.grant_offered(grant_id)
    for job_id in Job.objects.filter(state=State.FINISHING).values_list("pk", flat=True):
        wake.job_finishing(job_id)
    for sweep_id in sweeps_unfinished():
        sweep_advance(sweep_id)
