"""Pages to pause and resume a job, and its checkpoints. The job's page asks in dialogs; these serve without scripts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import resuming, retention, services
from jobs.checkpoints import checkpoint_of, checkpoint_packed, checkpoint_rows
from jobs.job_page import parts_context
from jobs.models import Job
from jobs.resume_form import ResumeForm
from jobs.states import TransitionError
from jobs.views import job_of
from workspaces.downloads import download
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def job_pause(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """Ask, then have the job write a checkpoint and give its devices back."""
    job = job_of(request, job_id)
    if request.method == "POST":
        try:
            services.job_pause(job=job, actor=request.user, reason=request.POST.get("reason", ""))
        except TransitionError:
            return _page(request, job, "pause", status=409)
        return redirect("job", project.pk, job.pk)
    return _page(request, job, "pause")


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def job_resume(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """Ask for a larger budget where the old one is used up, then queue the job again."""
    job = job_of(request, job_id)
    if request.method != "POST":
        return _page(request, job, "resume")
    form = ResumeForm(request.POST, job=job)
    if form.is_valid():
        try:
            resuming.job_resume(
                job=job,
                actor=request.user,
                amount=form.cleaned_data.get("amount"),
                minutes=form.cleaned_data.get("minutes"),
            )
        except TransitionError:
            return _page(request, job, "resume", status=409)
        except Refused as error:
            form.add_error(error.field if error.field in form.fields else None, error.message)
        else:
            return redirect("job", project.pk, job.pk)
    return _page(request, job, "resume", status=422, resume_form=form)


def _page(request: ProjectRequest, job: Job, action: str, status: int = 200, **more: Any) -> HttpResponse:
    return render(request, "jobs/life.html", parts_context(job) | {"action": action} | more, status=status)


@require_safe
@in_project()
def job_checkpoints(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """The list of checkpoints, as it is now."""
    job = job_of(request, job_id)
    return render(request, "jobs/checkpoints.html", {"job": job, "checkpoints": checkpoint_rows(job)})


@require_POST
@in_project(Role.EDITOR)
def checkpoint_keep(request: ProjectRequest, project: Project, job_id: UUID, checkpoint_id: UUID) -> HttpResponse:
    """Keep a checkpoint (``kept=1``) or give it free; asked for by htmx, the list comes back."""
    job = job_of(request, job_id)
    retention.checkpoint_keep(
        checkpoint=checkpoint_of(job, checkpoint_id),
        job=job,
        keep=request.POST.get("kept") == "1",
        actor=request.user,
    )
    if request.headers.get("HX-Request"):
        return render(request, "jobs/checkpoints.html", {"job": job, "checkpoints": checkpoint_rows(job)})
    response = redirect("job", project.pk, job.pk)
    response["Location"] += "?tab=checkpoints"
    return response


@require_safe
@in_project()
def checkpoint_zip(request: ProjectRequest, project: Project, job_id: UUID, checkpoint_id: UUID) -> HttpResponseBase:
    """All files of a checkpoint as one zip."""
    job = job_of(request, job_id)
    name, stream = checkpoint_packed(job, checkpoint_of(job, checkpoint_id))
    return download(request, stream, name, "application/zip")
