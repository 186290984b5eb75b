"""Home, of a person and of a project."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from portal.glance import glance_of
from portal.selectors import project_overview
from workspaces.models import Project
from workspaces.scope import PROJECT_COOKIE, ProjectRequest, SignedInRequest, in_project
from workspaces.selectors import projects_of, workspaces_of


@require_safe
def home(request: SignedInRequest) -> HttpResponse:
    """On to the project of last time, or the first there is; a person with none is told what to do."""
    projects = list(projects_of(request.user))
    last = request.COOKIES.get(PROJECT_COOKIE)
    chosen = next((project for project in projects if str(project.pk) == last), projects[0] if projects else None)
    if chosen is not None:
        return redirect("project-home", chosen.pk)
    return render(request, "portal/no_project.html", {"teams": workspaces_of(request.user)})


@require_safe
@in_project()
def project_home(request: ProjectRequest, project: Project) -> HttpResponse:
    context = {"overview": project_overview(project, request.user), "glance": glance_of(project)}
    return render(request, "portal/home.html", context)
