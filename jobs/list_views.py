"""What the list of jobs can do with the jobs that are ticked, and the views of it that people save."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST

from jobs.bulk import ACTIONS, MOST, choices, jobs_bulk
from jobs.ids import read_ids
from jobs.selectors import jobs_visible_to
from records.models import SavedView
from records.saved import view_delete, view_save
from workspaces import access
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project

DONE = {"cancel": "Cancelled", "delete": "Deleted", "tag": "Tagged", "untag": "Took the tag off"}


def _back(request: ProjectRequest, project: Project) -> str:
    there = request.POST.get("next", "")
    jobs = reverse("jobs", args=[project.pk])
    safe = there.startswith(jobs) and url_has_allowed_host_and_scheme(there, allowed_hosts={request.get_host()})
    return there if safe else jobs


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def jobs_bulk_page(request: ProjectRequest, project: Project) -> HttpResponse:
    """Ask with the jobs by name and their number, then do it to exactly these."""
    sent = request.POST if request.method == "POST" else request.GET
    action = sent.get("do", "")
    ids = read_ids(sent.getlist("jobs"), MOST)
    jobs = jobs_visible_to(request.user).filter(project=project)
    if action not in ACTIONS or not ids:
        messages.error(request, "Tick at least one job, then choose what to do with it.")
        return redirect("jobs", project.pk)
    if request.method == "POST":
        try:
            outcome = jobs_bulk(jobs=jobs, ids=ids, action=action, actor=request.user, tag=sent.get("tag", ""))
        except Refused as refused:
            messages.error(request, str(refused))
            return redirect(_back(request, project))
        messages.info(request, f"{DONE[action]}: {outcome.done} {'job' if outcome.done == 1 else 'jobs'}.")
        if outcome.passed_over:
            messages.warning(request, f"Passed over: {'; '.join(outcome.passed_over[:10])}.")
        return redirect(_back(request, project))
    chosen = choices(jobs, ids, action)
    context = {
        "action": action,
        "chosen": chosen,
        "fitting": [choice for choice in chosen if not choice.why_not],
        "missing": len(ids) - len(chosen),
    }
    return render(request, "jobs/bulk.html", context)


@require_POST
@in_project()
def jobs_view_save(request: ProjectRequest, project: Project) -> HttpResponse:
    """Keep the list as it is filtered now, under a name. To share it with the team takes an editor."""
    shared = "shared" in request.POST and request.may_edit
    query = request.POST.get("query", "")
    try:
        view_save(
            project=project,
            owner=request.user,
            page="jobs",
            name=request.POST.get("name", ""),
            query=query,
            shared=shared,
        )
    except Refused as refused:
        messages.error(request, str(refused))
    return redirect(f"{reverse('jobs', args=[project.pk])}?{query}")


@require_POST
@in_project()
def jobs_view_delete(request: ProjectRequest, project: Project, view_id: UUID) -> HttpResponse:
    """Only whoever made a view deletes it; for anyone else it is not there."""
    view = access.get(SavedView.objects.filter(project=project, owner=request.user), view_id, request.user)
    view_delete(view=view)
    return redirect("jobs", project.pk)
