"""A job as the API shows it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import reverse

from gateway.rest.catalog import reward_source
from jobs.models import Attempt, Job
from jobs.selectors import job_summary
from jobs.states import TABLE, TERMINAL, State
from records.selectors import latest_values
from workspaces.vault import mask_of_project


def brief(job: Job) -> dict[str, Any]:
    """The columns of a listing; one row of one table."""
    state = State(job.state)
    return {
        "id": job.pk,
        "name": job.name,
        "project": job.project,
        "state": state.value,
        "state_label": TABLE[state].label,
        "ended": state in TERMINAL,
        "reason": job.reason,
        "recipe": str(job.spec.get("recipe", "")),
        "base_model": job.base_model.name,
        "step": job.step,
        "total_steps": job.total_steps,
        "fraction": job.fraction,
        "eta_s": job.eta_s,
        "submitted_by": job.submitted_by.email if job.submitted_by else None,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "url": page_of(job),
    }


def full(job: Job) -> dict[str, Any]:
    """Everything about one job but its points, lines and rollouts."""
    summary = job_summary(job)
    model, reward = job.model_version, job.reward_version
    return {
        **brief(job),
        **{name: summary[name] for name in ("meaning", "actions", "waiting", "report")},
        "advice": job.advice,
        "failure_kind": job.failure_kind,
        "phase": job.phase,
        "attempt": job.epoch,
        "dataset": job.dataset_version.source,
        "reward": reward_source(reward) if reward else None,
        "result": job.result,
        "cost": {"total": summary["cost"], "currency": summary["currency"]},
        "latest": latest_values(("job", job.pk)),
        "model_version": {"id": model.pk, "name": model.model.name, "number": model.number} if model else None,
        "cursor": newest_cursor(job),
        "spec": mask_of_project(job.project_id).value(job.spec),
    }


def newest_cursor(job: Job) -> str:
    """Where the journal stands in the database, as ``jobs.selectors.updates_after`` takes it."""
    attempt = Attempt.objects.filter(job=job).order_by("-number").first()
    return f"{attempt.number}:{attempt.cursor}" if attempt else "0:0"


def page_of(job: Job) -> str:
    """The job's page for a browser."""
    return settings.PUBLIC_URL + reverse("job", args=[job.pk])
