"""/jobs: submit, look, cancel."""

from __future__ import annotations

import re
from typing import Annotated, Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router, Status
from pydantic import Field

from catalog.models import RewardVersion
from catalog.selectors import reward_versions_visible_to
from gateway.rest.auth import caller, scoped
from gateway.rest.catalog import project_for
from gateway.rest.errors import RestError
from gateway.rest.job_views import brief, full
from gateway.rest.paging import Cursor, Limit, page
from gateway.rest.schemas import CancelIn, JobBrief, JobIn, JobOut, LogLineOut, MetricsOut, Page, refusals
from jobs.models import Job
from jobs.selectors import jobs_visible_to, report_bytes
from jobs.services import job_cancel, job_submit
from jobs.states import State
from records.selectors import log_tail, number, series_of
from trainers.spec import SpecError
from workspaces import access
from workspaces.models import Project, Role, User
from workspaces.scopes import Scope

router = Router(tags=["jobs"])
States = Annotated[str | None, Field(max_length=200, description="One state, or several with commas between them.")]
_REWARD = re.compile(r"^reward:(?P<id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})@(?P<number>\d{1,9})$")
# What the report may do in a browser: show itself. It holds text that models wrote.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)


@router.post(
    "/jobs",
    response={200: JobOut, 201: JobOut, **refusals(400, 403, 404, 413)},
    summary="Submit a task; 200 when the key's job was there already",
    operation_id="job_submit",
    auth=scoped(Scope.TRAIN),
)
def job_add(request: HttpRequest, body: JobIn) -> Status:
    user = caller(request)
    project = project_for(user, body.project)
    known = Job.objects.filter(project=project, idempotency_key=body.idempotency_key).exists()
    spec, reward_version = dict(body.spec), None
    if body.reward is not None and not known:
        reward_version = _reward(user, project, body.reward)
        if spec.get("reward") is not None:
            raise SpecError([("reward", "is given twice: registered, and inside the task spec; leave one out")])
        spec["reward"] = reward_version.spec
    job = job_submit(
        project=project,
        spec=spec,
        submitted_by=user,
        idempotency_key=body.idempotency_key,
        reward_version=reward_version,
    )
    return Status(200 if known else 201, full(visible_job(user, job.pk)))


def _reward(user: User, project: Project, source: str) -> RewardVersion:
    match = _REWARD.match(source)
    if match is None:
        raise SpecError([("reward", "must name a registered reward and its version, as reward:<id>@<number>")])
    version = (
        reward_versions_visible_to(user)
        .filter(reward_id=UUID(match["id"]), number=min(int(match["number"]), 2**31 - 1), reward__project=project)
        .first()
    )
    if version is None:
        raise SpecError([("reward", f"this project has no {source}")])
    return version


def visible_job(user: User, job_id: UUID, need: Role = Role.VIEWER) -> Job:
    """A job the caller may see, or 404."""
    return access.get(jobs_visible_to(user), job_id, user, need)


@router.get(
    "/jobs", response={200: Page[JobBrief], **refusals()}, summary="Jobs, newest first", operation_id="job_list"
)
def job_list(
    request: HttpRequest,
    project: UUID | None = None,
    state: States = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> dict[str, Any]:
    rows = jobs_visible_to(caller(request))
    if project:
        rows = rows.filter(project_id=project)
    if state:
        rows = rows.filter(state__in=_states(state))
    items, following = page(rows, cursor, limit)
    return {"items": [brief(item) for item in items], "next": following}


def _states(text: str) -> list[str]:
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for name in wanted:
        if name not in set(State):
            message = f"there is no state {name!r}; there are: {', '.join(State)}"
            raise RestError(422, "The request does not fit.", fields=[("state", message)])
    return wanted


@router.get("/jobs/{uuid:job_id}", response={200: JobOut, **refusals(404)}, summary="One job", operation_id="job_get")
def job_get(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return full(visible_job(caller(request), job_id))


@router.post(
    "/jobs/{uuid:job_id}/cancel",
    response={200: JobOut, **refusals(400, 403, 404)},
    summary="Stop a job; changes nothing when it is ending or has ended",
    operation_id="job_cancel",
    auth=scoped(Scope.TRAIN),
)
def job_stop(request: HttpRequest, job_id: UUID, body: CancelIn | None = None) -> dict[str, Any]:
    user = caller(request)
    job = visible_job(user, job_id, Role.EDITOR)
    job_cancel(job=job, actor=user, reason=body.reason if body else "")
    return full(visible_job(user, job_id))


@router.get(
    "/jobs/{uuid:job_id}/metrics",
    response={200: MetricsOut, **refusals(404)},
    summary="All points of a job's metrics, each step once",
    operation_id="job_metrics",
)
def job_metrics(
    request: HttpRequest,
    job_id: UUID,
    names: str | None = Query(None, alias="keys", max_length=4000, description="Names with commas between them."),
) -> dict[str, Any]:
    job = visible_job(caller(request), job_id)
    wanted = {part.strip() for part in names.split(",")} if names else None
    series = series_of(("job", job.pk), wanted)
    return {
        "metrics": {
            key: [[step, number(value), active_s, tokens] for step, value, active_s, tokens in points]
            for key, points in series.items()
        }
    }


@router.get(
    "/jobs/{uuid:job_id}/logs",
    response={200: Page[LogLineOut], **refusals(404)},
    summary="The newest log lines, oldest first",
    operation_id="job_logs",
)
def job_logs(request: HttpRequest, job_id: UUID, lines: Annotated[int, Field(ge=1, le=10_000)] = 200) -> dict[str, Any]:
    job = visible_job(caller(request), job_id)
    rows = log_tail(("job", job.pk), lines)
    fields = ("attempt", "seq", "level", "text")
    items = [{"t": row.at.timestamp(), **{name: getattr(row, name) for name in fields}} for row in rows]
    return {"items": items, "next": None}


@router.get(
    "/jobs/{uuid:job_id}/report",
    response={200: None, **refusals(404)},
    summary="The report as one HTML file",
    operation_id="job_report",
    openapi_extra={"responses": {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}},
)
def job_report(request: HttpRequest, job_id: UUID) -> HttpResponse:
    job = visible_job(caller(request), job_id)
    content = report_bytes(job)
    if content is None:
        raise Http404("This job has no report; one is written when it has succeeded.")
    response = HttpResponse(content, content_type="text/html; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="report-{str(job.pk)[:8]}.html"'
    response["Content-Security-Policy"] = REPORT_POLICY
    response["X-Content-Type-Options"] = "nosniff"
    return response
