"""What came of what: the jobs and models that used a dataset or reward, and what a model version goes back to."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog import selectors as catalog
from catalog.models import Checkpoint, ModelVersion
from jobs.model_use import jobs_from
from jobs.models import Job
from jobs.references import checkpoint_named
from jobs.selectors import jobs_visible_to
from jobs.states import TABLE, Row, State
from workspaces import access
from workspaces.models import Project, User
from workspaces.scope import ProjectRequest, in_project

SHOWN = 20


@dataclass(frozen=True)
class Use:
    """A job that used something, and the model version it made (None: none)."""

    job: Job
    state: Row
    version: ModelVersion | None


@dataclass(frozen=True)
class Ancestor:
    """What a version went on from: a version, a checkpoint, or only the name of one that is gone."""

    name: str
    version: ModelVersion | None
    checkpoint: Checkpoint | None


@require_safe
@in_project()
def dataset_usage(request: ProjectRequest, project: Project, dataset_id: UUID) -> HttpResponse:
    """The jobs that learned from any version of the dataset, or were measured on it, the newest first."""
    dataset = access.get(catalog.datasets_visible_to(request.user).filter(project=project), dataset_id, request.user)
    used = Q(dataset_version__dataset=dataset) | Q(evaluation_version__dataset=dataset)
    return _usage(request, jobs_visible_to(request.user).filter(used, project=project))


@require_safe
@in_project()
def reward_usage(request: ProjectRequest, project: Project, reward_id: UUID) -> HttpResponse:
    """The jobs that used any version of the reward, the newest first."""
    reward = access.get(catalog.rewards_visible_to(request.user).filter(project=project), reward_id, request.user)
    return _usage(request, jobs_visible_to(request.user).filter(reward_version__reward=reward, project=project))


def _usage(request: ProjectRequest, jobs: QuerySet[Job]) -> HttpResponse:
    found = uses(jobs)
    return render(request, "portal/usage.html", {"uses": found[:SHOWN], "more": len(found) > SHOWN})


def uses(jobs: QuerySet[Job]) -> list[Use]:
    """At most one more than is shown; one query."""
    return [Use(job, TABLE[State(job.state)], job.model_version) for job in jobs[: SHOWN + 1]]


def descendants(version: ModelVersion, user: User) -> list[Use]:
    """The jobs that went on from the version or learned from it."""
    return uses(jobs_visible_to(user).filter(pk__in=jobs_from([version])))


def ancestor(job: Job | None) -> Ancestor | None:
    """What the job's training went on from; None when it began at the base model."""
    name = str(((job.spec.get("model") if job else None) or {}).get("start_from") or "")
    if job is None or not name:
        return None
    version = catalog.model_version_named(job.project, name)
    if version is not None:
        return Ancestor(name, version, None)
    return Ancestor(name, None, checkpoint_named(job.project, name))
