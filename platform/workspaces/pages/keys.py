"""What programs use: the team's API tokens, and its secrets."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import access, selectors, tokens, vault
from workspaces.errors import Refused
from workspaces.models import Role, Secret, Workspace
from workspaces.pages.refusals import put_on
from workspaces.scope import WorkspaceRequest, in_workspace
from workspaces.team_forms import SecretForm


@require_safe
@in_workspace(Role.ADMIN)
def token_list(request: WorkspaceRequest, workspace: Workspace) -> HttpResponse:
    """Every token for this team, whoever made it; never a key."""
    return render(request, "workspaces/team_tokens.html", {"tokens": selectors.team_tokens(workspace)})


@require_POST
@in_workspace(Role.ADMIN)
def token_revoke(request: WorkspaceRequest, workspace: Workspace, token_id: UUID) -> HttpResponseBase:
    token = tokens.team_token_of(request.user, workspace, token_id)
    tokens.token_revoke(token=token, actor=request.user)
    messages.success(request, _("The token “%(name)s” no longer works.") % {"name": token.name})
    return redirect("team-tokens", workspace.pk)


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
@in_workspace(Role.EDITOR)
def secret_list(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """Names of the team's secrets for editors; admins set them. A value never comes back, not even after an error."""
    form = SecretForm(request.POST or None) if request.may_manage else None
    if request.method == "POST":
        if form is None:
            raise access.lacking(Role.ADMIN)
        if form.is_valid():
            try:
                secret = vault.secret_set(workspace=workspace, actor=request.user, **form.cleaned_data)
                messages.success(request, _("The secret %(name)s is kept.") % {"name": secret.name})
                return redirect("secrets", workspace.pk)
            except Refused as error:
                put_on(form, error)
    secrets = Secret.objects.filter(workspace=workspace).select_related("set_by").defer("sealed")
    return render(request, "workspaces/secrets.html", {"form": form, "secrets": secrets})


@require_POST
@in_workspace(Role.ADMIN)
def secret_delete(request: WorkspaceRequest, workspace: Workspace, secret_id: UUID) -> HttpResponseBase:
    rows = Secret.objects.filter(workspace=workspace).select_related("workspace")
    secret = access.get(rows, secret_id, request.user, Role.ADMIN)
    vault.secret_delete(secret=secret, actor=request.user)
    messages.success(request, _("The secret %(name)s is deleted.") % {"name": secret.name})
    return redirect("secrets", workspace.pk)
