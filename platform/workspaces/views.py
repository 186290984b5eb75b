"""A person's own settings: profile, colors, tokens."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import access, selectors, services, tokens
from workspaces.errors import Refused
from workspaces.forms import ProfileForm, ProjectForm, TokenForm
from workspaces.models import Role, Workspace
from workspaces.scope import SignedInRequest


@require_POST
def theme(request: SignedInRequest) -> HttpResponse:
    """Remember the choice of colours; scripts get an empty answer, others their page again."""
    try:
        services.theme_set(user=request.user, theme=request.POST.get("theme", ""))
    except Refused as error:
        return HttpResponse(error.message, status=400, content_type="text/plain; charset=utf-8")
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    back = request.headers.get("Referer", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else reverse("home"))


@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: SignedInRequest) -> HttpResponse:
    """Name and time zone."""
    initial = {"name": request.user.name, "time_zone": request.user.time_zone}
    form = ProfileForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        services.profile_update(user=request.user, **form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("settings")
    return render(request, "workspaces/settings.html", {"form": form})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: SignedInRequest) -> HttpResponse:
    """A person's tokens, and the form for a new one, whose key is in the answer to the form and nowhere else."""
    form = TokenForm(request.user, request.POST or None)
    key = ""
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            _token, key = tokens.token_create(
                user=request.user,
                workspace=data["workspace"],
                name=data["name"],
                role=Role(data["role"]),
                scopes=data["scopes"],
                expires_at=form.expires_at(),
            )
            form = TokenForm(request.user)
        except Refused as error:
            form.add_error(error.field if error.field in form.fields else None, error.message)
    context = {"form": form, "key": key, "tokens": selectors.tokens_of(request.user)}
    return render(request, "workspaces/tokens.html", context)


@require_POST
def token_revoke(request: SignedInRequest, token_id: UUID) -> HttpResponse:
    token = tokens.token_of(request.user, token_id)
    tokens.token_revoke(token=token, actor=request.user)
    messages.success(request, _("The token “%(name)s” no longer works.") % {"name": token.name})
    return redirect("tokens")


@require_http_methods(["GET", "HEAD", "POST"])
def project_new(request: SignedInRequest, workspace_id: UUID) -> HttpResponseBase:
    """A new project in a workspace, made by its editors."""
    workspace = access.get(Workspace.objects.all(), workspace_id, request.user, Role.EDITOR)
    form = ProjectForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            project = services.project_create(workspace=workspace, actor=request.user, **form.cleaned_data)
            return redirect("project-home", project.pk)
        except Refused as error:
            form.add_error(cast("str", error.field), error.message)
    return render(request, "workspaces/project_new.html", {"form": form, "workspace": workspace})
