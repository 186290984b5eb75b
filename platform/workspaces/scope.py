"""What every page inside a project begins with: the project, found through the one door, and the caller's role."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase

from workspaces import access, selectors
from workspaces.models import Project, Role, User, Workspace

PROJECT_COOKIE = "tuneyard_project"
COOKIE_AGE = 365 * 24 * 3600


class SignedInRequest(HttpRequest):
    """A request of a signed-in person; every view is one unless it is marked ``login_not_required``."""

    user: User


class ProjectRequest(SignedInRequest):
    """A request to a page of a project. Templates read ``request.project`` and ``request.may_edit``."""

    project: Project
    role: Role
    may_edit: bool


View = Callable[..., HttpResponseBase]


def in_project(need: Role = Role.VIEWER) -> Callable[[View], View]:
    """Hand the view a ``Project`` in place of the URL's ``project_id``.

    Strangers get 404; a member without the role ``need`` gets 403. The project is remembered in a cookie, so that ``/``
    leads back to it without writing anything to the database.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def inner(request: HttpRequest, project_id: UUID, *args: Any, **kwargs: Any) -> HttpResponseBase:
            user = cast("User", request.user)
            scoped = cast("ProjectRequest", request)
            scoped.project = access.get(Project.objects.select_related("workspace"), project_id, user)
            scoped.role = access.check(selectors.role_in(scoped.project.workspace_id, user), need)
            scoped.may_edit = scoped.role >= Role.EDITOR
            response = view(scoped, scoped.project, *args, **kwargs)
            remember_project(request, response, scoped.project)
            return response

        return inner

    return decorate


class WorkspaceRequest(SignedInRequest):
    """A request to a page of a team. Templates read ``workspace``, ``role`` and ``may_manage`` of the request."""

    workspace: Workspace
    role: Role
    may_manage: bool


def in_workspace(need: Role = Role.VIEWER) -> Callable[[View], View]:
    """Hand the view a ``Workspace`` in place of the URL's ``workspace_id``; 404 and 403 as in :func:`in_project`."""

    def decorate(view: View) -> View:
        @wraps(view)
        def inner(request: HttpRequest, workspace_id: UUID, *args: Any, **kwargs: Any) -> HttpResponseBase:
            user = cast("User", request.user)
            scoped = cast("WorkspaceRequest", request)
            scoped.workspace = access.get(Workspace.objects.all(), workspace_id, user)
            scoped.role = access.check(selectors.role_in(scoped.workspace.pk, user), need)
            scoped.may_manage = scoped.role >= Role.ADMIN
            return view(scoped, scoped.workspace, *args, **kwargs)

        return inner

    return decorate


def remember_project(request: HttpRequest, response: HttpResponseBase, project: Project) -> None:
    """Make ``/`` lead to this project next time."""
    if request.COOKIES.get(PROJECT_COOKIE) != str(project.pk):
        secure = request.is_secure()
        response.set_cookie(
            PROJECT_COOKIE, str(project.pk), max_age=COOKIE_AGE, httponly=True, samesite="Lax", secure=secure
        )
