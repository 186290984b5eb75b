"""/me and /projects."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from gateway.rest.auth import caller, token_of
from gateway.rest.paging import Cursor, Limit, page
from gateway.rest.schemas import MeOut, Page, ProjectIn, ProjectOut, refusals
from workspaces import access
from workspaces.models import Project, Role, Workspace
from workspaces.selectors import projects_of, role_in
from workspaces.services import project_create

router = Router(tags=["account"])


@router.get("/me", response={200: MeOut, **refusals()}, summary="Who this token belongs to", operation_id="me")
def me(request: HttpRequest) -> dict[str, Any]:
    user = caller(request)
    token = token_of(user)
    role = role_in(token.workspace_id, user)
    return {
        "user": user,
        "workspace": token.workspace,
        "role": role.label if role else "none",
        "token": token,
        "server": {"version": _version()},
    }


@router.get(
    "/projects", response={200: Page[ProjectOut], **refusals()}, summary="Projects", operation_id="project_list"
)
def project_list(request: HttpRequest, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    items, following = page(projects_of(caller(request)), cursor, limit)
    return {"items": items, "next": following}


@router.post(
    "/projects",
    response={201: ProjectOut, **refusals(400, 403)},
    summary="Make a project in the token's workspace",
    operation_id="project_create",
)
def project_make(request: HttpRequest, body: ProjectIn) -> Status:
    user = caller(request)
    workspace = access.get(Workspace.objects.all(), token_of(user).workspace_id, user, Role.EDITOR)
    made: Project = project_create(workspace=workspace, name=body.name, description=body.description, actor=user)
    return Status(201, made)


def _version() -> str:
    try:
        return version("tuneyard-server")
    except PackageNotFoundError:
        return "unknown"
