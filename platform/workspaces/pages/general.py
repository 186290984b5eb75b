"""A team as a whole: making one, its name, its storage, handing it over, leaving and deleting it."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import access, closing, export, membership, quota, services
from workspaces.downloads import download
from workspaces.errors import Refused
from workspaces.models import Role, Workspace
from workspaces.pages.refusals import put_on
from workspaces.scope import SignedInRequest, WorkspaceRequest, in_workspace
from workspaces.services import audit
from workspaces.team_forms import TransferForm, TypedNameForm, WorkspaceForm


@require_http_methods(["GET", "HEAD", "POST"])
def workspace_new(request: SignedInRequest) -> HttpResponseBase:
    """A new team with the person as its owner, where the installation lets them make one."""
    if not services.may_make_workspaces(request.user):
        raise PermissionDenied("On this installation only its staff makes workspaces.")
    form = WorkspaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            workspace = services.workspace_create(name=form.cleaned_data["name"], owner=request.user)
            return redirect("project-new", workspace.pk)
        except Refused as error:
            put_on(form, error)
    return render(request, "workspaces/workspace_new.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
@in_workspace()
def general(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """Name and storage; admins rename."""
    form = WorkspaceForm(request.POST or None, initial={"name": workspace.name})
    if request.method == "POST":
        if not request.may_manage:
            raise access.lacking(Role.ADMIN)
        if form.is_valid():
            try:
                services.workspace_rename(workspace=workspace, name=form.cleaned_data["name"], actor=request.user)
                messages.success(request, _("Saved."))
                return redirect("workspace", workspace.pk)
            except Refused as error:
                put_on(form, error)
                workspace.refresh_from_db()
    context = {"form": form, "usage": quota.usage_of(workspace), "is_owner": request.role == Role.OWNER}
    return render(request, "workspaces/general.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@in_workspace(Role.OWNER)
def transfer(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """Hand the team over to another member, confirmed by typing its name."""
    form = TransferForm(workspace, request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        new_owner = form.cleaned_data["user"]
        try:
            membership.ownership_transfer(
                workspace=workspace,
                user_id=new_owner.pk,
                typed_name=form.cleaned_data["typed_name"],
                actor=request.user,
            )
            messages.success(request, _("%(name)s owns the workspace now; you are an admin.") % {"name": new_owner})
            return redirect("members", workspace.pk)
        except Refused as error:
            put_on(form, error)
    return render(request, "workspaces/transfer.html", {"form": form})


@require_POST
@in_workspace()
def leave(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    try:
        membership.workspace_leave(workspace=workspace, actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
        return redirect("members", workspace.pk)
    messages.success(request, _("You have left “%(name)s”.") % {"name": workspace.name})
    return redirect("home")


@require_POST
@in_workspace(Role.OWNER)
def export_zip(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """Everything the team holds, as a zip made while it is sent; ``files`` adds the stored files."""
    with_files = request.POST.get("files") == "1"
    audit(
        workspace=workspace,
        actor=request.user,
        action="workspace.export",
        obj=workspace,
        detail={"files": with_files},
    )
    chunks = export.workspace_zip(workspace, with_files=with_files)
    return download(request, chunks, f"{workspace.slug}.zip", "application/zip")


@require_http_methods(["GET", "HEAD", "POST"])
@in_workspace(Role.OWNER)
def delete(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """Delete the team with all it holds, confirmed by typing its name."""
    form = TypedNameForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            closing.workspace_close(workspace=workspace, typed_name=form.cleaned_data["typed_name"], actor=request.user)
            messages.success(request, _("The workspace “%(name)s” is deleted.") % {"name": workspace.name})
            return redirect("home")
        except Refused as error:
            put_on(form, error)
    context: dict[str, object] = {"form": form, "usage": quota.usage_of(workspace)}
    response: HttpResponse = render(request, "workspaces/delete.html", context)
    return response
