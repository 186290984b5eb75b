"""Sign-in and a person's own settings."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import access, selectors, services, tokens
from workspaces.errors import Refused
from workspaces.forms import ProfileForm, ProjectForm, SignInForm, TokenForm
from workspaces.models import Role, Workspace
from workspaces.scope import SignedInRequest


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """E-mail and password; leads on to ``next`` when that is a page of ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    hosts = {request.get_host()}
    safe = url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure())
    target = wanted if safe else reverse("home")
    if request.user.is_authenticated:
        return redirect(target)
    form = SignInForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid() and form.user is not None:
        login(request, form.user)
        return redirect(target)
    status = 429 if form.has_error("__all__", "limited") else 200
    return render(request, "workspaces/sign_in.html", {"form": form, "next": wanted if safe else ""}, status=status)


@login_not_required
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


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


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: SignedInRequest) -> HttpResponse:
    """A new password; every other session of the person ends with the old one."""
    form = PasswordChangeForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        update_session_auth_hash(request, form.save())
        messages.success(request, _("The password is changed. Other browsers you were signed in with are signed out."))
        return redirect("settings")
    return render(request, "workspaces/password.html", {"form": form})


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
