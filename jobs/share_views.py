"""The report of a job for people without an account: links made, listed and revoked, and the page they open."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from jobs.models import Job
from jobs.selectors import report_bytes
from jobs.views import REPORT_POLICY, job_of
from workspaces import access, sharing
from workspaces.errors import Refused
from workspaces.models import Project, Role, SharedLink
from workspaces.scope import ProjectRequest, in_project

KIND = "job-report"
UNLISTED = {
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


@require_safe
@in_project(Role.EDITOR)
def job_shares(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """The links to the job's report that work now."""
    return _listed(request, job_of(request, job_id))


@require_POST
@in_project(Role.EDITOR)
def job_share(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    job = job_of(request, job_id)
    if not job.report_key:
        raise Http404("This job has no report.")
    days = request.POST.get("days", "")
    try:
        sharing.shared_link_create(
            workspace=project.workspace,
            kind=KIND,
            object_id=job.pk,
            label=f"Report of {job.name}",
            days=int(days) if days.isascii() and days.isdigit() and len(days) < 5 else 0,
            actor=request.user,
        )
    except Refused as error:
        return _listed(request, job, error.message)
    return _listed(request, job)


@require_POST
@in_project(Role.EDITOR)
def job_unshare(request: ProjectRequest, project: Project, job_id: UUID, link_id: UUID) -> HttpResponse:
    job = job_of(request, job_id)
    rows = SharedLink.objects.select_related("workspace").filter(kind=KIND, object_id=job.pk)
    sharing.shared_link_revoke(link=access.get(rows, link_id, request.user, Role.EDITOR), actor=request.user)
    return _listed(request, job)


@login_not_required
@require_safe
def report_shared(request: HttpRequest, key: str) -> HttpResponse:
    """The report that a link shows, and nothing else of the team; the key in the address is all that it takes."""
    link = sharing.shared_link_opened(key, KIND)
    job = Job.objects.filter(pk=link.object_id, project__workspace_id=link.workspace_id).first() if link else None
    content = report_bytes(job) if job else None
    if content is None:
        return HttpResponse(render_to_string("jobs/report_gone.html", request=request), status=410, headers=UNLISTED)
    headers = UNLISTED | {"Content-Security-Policy": REPORT_POLICY}
    return HttpResponse(content, content_type="text/html; charset=utf-8", headers=headers)


def _listed(request: ProjectRequest, job: Job, problem: str = "") -> HttpResponse:
    links = [
        (link, request.build_absolute_uri(reverse("report-shared", args=[sharing.shared_link_key(link)])))
        for link in sharing.shared_links_open(request.project.workspace, KIND, job.pk)
    ]
    return render(request, "jobs/shares.html", {"job": job, "links": links, "problem": problem})
