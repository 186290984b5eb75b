"""The audit log of a team, for its admins."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workspaces import audit_log
from workspaces.downloads import download
from workspaces.models import Role, Workspace
from workspaces.scope import WorkspaceRequest, in_workspace


@require_safe
@in_workspace(Role.ADMIN)
def log_page(request: WorkspaceRequest, workspace: Workspace) -> HttpResponse:
    """One page of the log; filters and place are in the address."""
    events = audit_log.events_visible_to(request.user, workspace)
    shown = audit_log.page(
        audit_log.filtered(events, request.GET, request.user.time_zone), request.GET.get("before", "")
    )
    actions, kinds = audit_log.choices(workspace)
    chosen = {name: request.GET[name] for name in audit_log.FILTERS if request.GET.get(name)}
    context = {
        "page": shown,
        "actions": actions,
        "kinds": kinds,
        "chosen": chosen,
        "query": urlencode(chosen),
        "is_first": not request.GET.get("before"),
    }
    return render(request, "workspaces/audit.html", context)


@require_safe
@in_workspace(Role.ADMIN)
def log_csv(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """The filtered log, all of it, as CSV."""
    events = audit_log.filtered(
        audit_log.events_visible_to(request.user, workspace), request.GET, request.user.time_zone
    )
    return download(request, audit_log.csv_lines(events), f"audit-{workspace.slug}.csv", "text/csv; charset=utf-8")
