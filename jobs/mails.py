"""What the submitter is told by mail: once, when the job has succeeded or failed. Who cancels knows it already."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse

from billing.selectors import cost_of
from delivery import wake
from delivery.services import message_enqueue
from jobs.models import Job
from jobs.states import State
from workspaces.vault import mask_of_project

TOLD = frozenset({State.SUCCEEDED, State.FAILED})


def job_ended(job: Job) -> None:
    """Put the mail into the outbox, in the transaction that ends the job."""
    user = job.submitted_by
    if user is None or not user.is_active:
        return
    context = {
        "job": job,
        "link": settings.PUBLIC_URL + reverse("job", args=[job.pk]),
        "cost": cost_of("job", job.pk),
        "succeeded": job.state == State.SUCCEEDED,
        "before": (job.result or {}).get("before") or {},
        "after": (job.result or {}).get("after") or {},
    }
    verb = "has finished" if context["succeeded"] else "has failed"
    hide = mask_of_project(job.project_id).text
    message_enqueue(
        key=f"job:{job.pk}:{job.state}:{user.pk}",
        recipient=user.email,
        subject=hide(f"{job.name} {verb}"),
        text=hide(render_to_string("mail/job_ended.txt", context)),
        html=hide(render_to_string("mail/job_ended.html", context)),
    )
    transaction.on_commit(wake.mail_waiting, robust=True)
