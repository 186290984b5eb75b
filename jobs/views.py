"""Pages of jobs: the list, one job and its parts, and the way to cancel it. The form has its own module."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from csp.decorators import csp_exempt
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_safe

from jobs import services
from jobs.job_page import PANELS, page_context, parts_context
from jobs.listing import job_list
from jobs.models import Job
from jobs.selectors import jobs_visible_to, report_bytes, updates_after
from records.saved import chart_view_of, views_of
from workspaces import access
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, SignedInRequest, in_project

# The report is a page of its own, with script and style inside and text from strangers: it runs walled off from the
# product, without its cookies, and can reach nothing.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)


def job_of(request: ProjectRequest, job_id: UUID) -> Job:
    """The project's job with this id. Raises ``Http404`` for any other."""
    return access.get(jobs_visible_to(request.user).filter(project=request.project), job_id, request.user)


@require_safe
@in_project()
def jobs_page(request: ProjectRequest, project: Project) -> HttpResponse:
    """The project's jobs; asked for by htmx, only the table."""
    listing = job_list(
        jobs_visible_to(request.user).filter(project=project),
        group=request.GET.get("state", ""),
        search=request.GET.get("q", ""),
        tag=request.GET.get("tag", ""),
        page=request.GET.get("page", "1"),
    )
    template = "jobs/list_table.html" if request.headers.get("HX-Target") == "job-table" else "jobs/list.html"
    context = {"listing": listing, "query": request.GET, "views": views_of(project, request.user, "jobs")}
    return render(request, template, context)


@require_safe
def job_short(request: SignedInRequest, job_id: UUID) -> HttpResponse:
    """The short address in mails and terminals leads to the job in its project."""
    job = access.get(jobs_visible_to(request.user), job_id, request.user)
    return redirect("job", job.project_id, job.pk)


@require_safe
@in_project()
def job_page(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    tab = request.GET.get("tab", "charts")
    job = job_of(request, job_id)
    kept = chart_view_of(project, request.user)
    return render(request, "jobs/job.html", page_context(job, tab if tab in PANELS else "charts", kept))


@require_safe
@in_project()
def job_parts(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """Everything on the job's page that depends on its state, to be swapped in when that changes."""
    return render(request, "jobs/parts.html", parts_context(job_of(request, job_id)))


@require_safe
@in_project()
def job_updates(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """What the page lacks after the cursor ``after``, as JSON."""
    try:
        job = job_of(request, job_id)
        answer = updates_after(job, request.GET.get("after"), timeline_after=_entry(request.GET.get("timeline", "0")))
    except ValueError as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


def _entry(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError("timeline must be the id of the newest entry you have")
    return int(text)


@require_safe
@csp_exempt()
@in_project()
def job_report(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    job = job_of(request, job_id)
    content = report_bytes(job)
    if content is None:
        raise Http404("This job has no report.")
    headers = {"Content-Security-Policy": REPORT_POLICY}
    if "download" in request.GET:
        headers["Content-Disposition"] = content_disposition_header(True, f"{job.name}.html") or ""
    return HttpResponse(content, content_type="text/html; charset=utf-8", headers=headers)


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def job_cancel(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """Ask, then cancel. The page itself asks in a dialog; this one is for browsers without scripts."""
    job = job_of(request, job_id)
    if request.method == "POST":
        services.job_cancel(job=job, actor=request.user, reason=request.POST.get("reason", ""))
        return redirect(reverse("job", args=[project.pk, job.pk]))
    context: dict[str, Any] = parts_context(job)
    return render(request, "jobs/cancel.html", context)
