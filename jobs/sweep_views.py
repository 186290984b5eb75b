"""Pages of sweeps: the list, one family of jobs, and the ways to start and to stop one."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from jobs import sweeps
from jobs.compare import MOST_RUNS
from jobs.form_views import checked, form_page
from jobs.forms import JobForm
from jobs.models import Sweep
from jobs.states import TERMINAL, State
from jobs.sweep_form import SweepForm
from trainers.spec import SpecError
from trainers.sweep import parse_sweep, rungs
from workspaces import access
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project

PAGE = 50


@require_safe
@in_project()
def sweeps_page(request: ProjectRequest, project: Project) -> HttpResponse:
    rows = sweeps.sweeps_visible_to(request.user).filter(project=project)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    return render(request, "jobs/sweeps.html", {"page": page})


@require_POST
@in_project(Role.EDITOR)
def sweep_new(request: ProjectRequest, project: Project) -> HttpResponse:
    """Start a family of jobs from the form; or the form again, with what is wrong."""
    form, part = checked(JobForm(request.POST, project=project)), SweepForm(request.POST)
    valid = part.is_valid()
    if form.task is None or form.errors or not valid:
        return form_page(request, form, status=422, sweep=part)
    content = f"{form.value('key')}:{form.task.model_dump_json()}:{part.cleaned_data}"
    try:
        row = sweeps.sweep_submit(
            project=project,
            spec=part.sweep(form.task),
            submitted_by=request.user,
            idempotency_key=f"form-{hashlib.sha256(content.encode()).hexdigest()}",
            reward_version=form.reward_version if form.task.reward else None,
        )
    except SpecError as error:
        for path, message in error.errors:
            part.add_error("fields_text", f"{path}: {message}" if path else message)
        return form_page(request, form, status=422, sweep=part)
    return redirect("sweep", project.pk, row.pk)


@require_safe
@in_project()
def sweep_page(request: ProjectRequest, project: Project, sweep_id: UUID) -> HttpResponse:
    """The family with the state and the result of each member; asked for by htmx, only the table."""
    row = _sweep(request, sweep_id)
    partial = request.headers.get("HX-Target") == "sweep-members"
    return render(request, "jobs/sweep_members.html" if partial else "jobs/sweep.html", _context(row))


@require_POST
@in_project(Role.EDITOR)
def sweep_cancel(request: ProjectRequest, project: Project, sweep_id: UUID) -> HttpResponse:
    row = _sweep(request, sweep_id)
    sweeps.sweep_cancel(sweep=row, actor=request.user)
    return redirect("sweep", project.pk, row.pk)


def _context(row: Sweep) -> dict[str, Any]:
    described, members = parse_sweep(row.spec), sweeps.members_of(row)
    active = [member for member in members if State(member.job.state) not in TERMINAL]
    ids = ",".join(str(member.job.pk) for member in members[:MOST_RUNS])
    return {
        "sweep": row,
        "described": described,
        "members": members,
        "active": len(active),
        "best": next((member for member in members if member.best), None),
        "rungs": rungs(described) if described.method == "halving" else [],
        "cost": sum((member.cost for member in members if member.cost), start=0),
        "compare": f"{reverse('compare', args=[row.project_id])}?jobs={ids}",
    }


def _sweep(request: ProjectRequest, sweep_id: UUID) -> Sweep:
    return access.get(sweeps.sweeps_visible_to(request.user).filter(project=request.project), sweep_id, request.user)
