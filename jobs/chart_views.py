"""Charts beyond one job's page: the comparison, what it draws, and metrics as files."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from jobs import compare, exports
from jobs.compare import Run
from jobs.ids import read_ids
from jobs.run_looks import looks_of
from jobs.views import job_of
from records.overlay import AXES
from records.saved import chart_view_keep, chart_view_of
from workspaces.downloads import download
from workspaces.models import Project
from workspaces.scope import ProjectRequest, in_project

CSV = "text/csv; charset=utf-8"


@require_safe
@in_project()
def compare_page(request: ProjectRequest, project: Project) -> HttpResponse:
    """Up to twenty jobs side by side; they may be of any project that the caller sees."""
    ids = _ids(request)
    runs = compare.runs_of(request.user, ids)
    base = next((at for at, run in enumerate(runs) if str(run.job.pk) == request.GET.get("base")), 0)
    everything = "all" in request.GET
    keys = compare.metric_keys(runs)
    fields = compare.configuration(runs, base) if runs else []
    shown = [field for field in fields if everything or any(field.differs)]
    looks = looks_of([run.job.pk for run in runs])
    joined = ",".join(str(run.job.pk) for run in runs)
    rows = [_head(request, project, runs, at, looks[run.job.pk], base) for at, run in enumerate(runs)]
    context: dict[str, Any] = {
        "runs": rows,
        "missing": len(ids) - len(runs),
        "fields": shown,
        "hidden": len(fields) - len(shown),
        "everything": everything,
        "base": base,
        "metrics": compare.metric_table(runs, keys[: compare.MOST_METRICS]),
        "more_metrics": max(0, len(keys) - compare.MOST_METRICS),
        "any_active": any(run.active for run in runs),
        "joined": joined,
        "query": request.GET,
        "live": {
            "runs": [{key: row[key] for key in ("id", "name", "short", "colour", "dash", "active")} for row in rows],
            "keys": keys,
            "parameters": _parameters(fields),
            "lines": _address("compare-lines", project, joined),
            "points": _address("compare-points", project, joined),
            "chart_view": chart_view_of(project, request.user),
            "keep_view": reverse("chart-view", args=[project.pk]),
        },
    }
    return render(request, "jobs/compare.html", context)


def _ids(request: HttpRequest) -> list[UUID]:
    """``jobs=a,b`` and ``jobs=a&jobs=b``, as a form without scripts sends it, mean the same."""
    return read_ids(request.GET.getlist("jobs"), compare.MOST_RUNS)


def _address(name: str, project: Project, joined: str) -> str:
    return f"{reverse(name, args=[project.pk])}?{urlencode({'jobs': joined}, safe=',')}"


def _head(
    request: ProjectRequest, project: Project, runs: list[Run], at: int, look: tuple[str, str], base: int
) -> dict[str, Any]:
    run = runs[at]
    others = ",".join(str(other.job.pk) for other in runs if other is not run)
    rest = request.GET.copy()
    rest["jobs"] = others
    based = request.GET.copy()
    based["jobs"], based["base"] = ",".join(str(other.job.pk) for other in runs), str(run.job.pk)
    return {
        "run": run,
        "id": str(run.job.pk),
        "name": run.job.name,
        "short": run.short_id,
        "colour": look[0],
        "dash": look[1],
        "active": run.active,
        "is_base": at == base,
        "elsewhere": run.job.project if run.job.project_id != project.pk else None,
        "remove": f"?{rest.urlencode(safe=',')}",
        "make_base": f"?{based.urlencode(safe=',')}",
    }


def _parameters(fields: list[compare.Field]) -> list[dict[str, Any]]:
    """The numeric fields in which the runs differ, for the parallel axes."""
    return [
        {"path": field.path, "values": field.numbers}
        for field in fields
        if any(field.differs) and sum(value is not None for value in field.numbers) > 1
    ]


@require_safe
@in_project()
def compare_lines(request: ProjectRequest, project: Project) -> HttpResponse:
    """The lines of one metric (``key``) on one axis (``x``) as JSON; unchanged lines are answered with 304."""
    axis = next((axis for axis in AXES if axis == request.GET.get("x")), AXES[0])
    runs = compare.runs_of(request.user, _ids(request))
    found: dict[str, Any] = {"lines": compare.lines(runs, request.GET.get("key", "")[:200], axis)}
    found["active"] = [str(run.job.pk) for run in runs if run.active]
    tag = f'"{hashlib.sha256(json.dumps(found).encode()).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == tag:
        return HttpResponse(status=304, headers={"ETag": tag})
    separators = {"separators": (",", ":")}
    return JsonResponse(found, headers={"ETag": tag, "Cache-Control": "no-cache"}, json_dumps_params=separators)


@require_safe
@in_project()
def compare_table_csv(request: ProjectRequest, project: Project) -> HttpResponseBase:
    """Last and best value of every metric of the runs."""
    runs = compare.runs_of(request.user, _ids(request))
    return download(request, exports.table_csv(runs, compare.metric_keys(runs)), "comparison.csv", CSV)


@require_safe
@in_project()
def compare_points_csv(request: ProjectRequest, project: Project) -> HttpResponseBase:
    """All points of the runs; only those of the metrics ``key``, where some are named."""
    runs = compare.runs_of(request.user, _ids(request))
    return download(request, exports.points_csv(runs, request.GET.getlist("key") or None), "points.csv", CSV)


@require_safe
@in_project()
def job_metrics_csv(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponseBase:
    """All points of one job; only those of the metrics ``key``, where some are named."""
    job = job_of(request, job_id)
    runs = compare.runs_of(request.user, [job.pk])
    return download(request, exports.points_csv(runs, request.GET.getlist("key") or None), f"{job.name}.csv", CSV)


@require_POST
@in_project()
def chart_view(request: ProjectRequest, project: Project) -> HttpResponse:
    """Remember how the caller has set the toolbar of the charts."""
    chart_view_keep(project=project, user=request.user, query=request.POST.get("query", ""))
    return HttpResponse(status=204)
