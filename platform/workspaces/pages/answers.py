"""The page behind the link of an invitation, for whoever holds it."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from workspaces import limits
from workspaces.errors import Refused
from workspaces.invitations import (
    ANSWER_BY_ADDRESS,
    invitation_accept,
    invitation_accept_new,
    invitation_of_key,
)
from workspaces.models import Invitation, Project, Role, User
from workspaces.pages.refusals import put_on
from workspaces.sign_in.entering import enter
from workspaces.team_forms import NewPersonForm


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, key: str) -> HttpResponseBase:
    """Join: as who is signed in, or with an account made here for the invited address.

    A link that does not work (any more) gets one and the same answer, whatever the reason.
    """
    found = invitation_of_key(key)
    if found is None:
        return render(request, "workspaces/invitation_gone.html", status=410)
    form = NewPersonForm(request.POST or None)
    if request.method == "POST":
        if not limits.take(ANSWER_BY_ADDRESS, request.META.get("REMOTE_ADDR", "")):
            form.add_error(None, _("Too many tries from here. Wait a minute, then try again."))
            return _page(request, found, form, key, 429)
        answer = _join(request, found, form) if request.user.is_authenticated else _join_new(request, found, form)
        if answer is not None:
            return answer
    return _page(request, found, form, key)


def _page(request: HttpRequest, found: Invitation, form: NewPersonForm, key: str, status: int = 200) -> HttpResponse:
    signed_in = request.user.is_authenticated
    context = {
        "invitation": found,
        "role": Role(found.role).label,
        "form": form,
        "key": key,
        "is_theirs": signed_in and cast("User", request.user).email.casefold() == found.email.casefold(),
        # Who holds the link reads the mail of this address, so they may know whether it has an account.
        "has_account": not signed_in and User.objects.filter(email__iexact=found.email).exists(),
    }
    response = render(request, "workspaces/invitation.html", context, status=status)
    # The address of this page is a key. (Without any referrer the form would be taken for one of another site.)
    response["Referrer-Policy"] = "strict-origin"
    return response


def _join(request: HttpRequest, found: Invitation, form: NewPersonForm) -> HttpResponseBase | None:
    try:
        invitation_accept(invitation=found, user=cast("User", request.user))
    except Refused as error:
        # Its fields are those of a new account, and play no part here.
        form.errors.clear()
        form.cleaned_data = {}
        form.add_error(None, error.message)
        return None
    messages.success(request, _("You are in “%(name)s” now.") % {"name": found.workspace.name})
    return _inside(found)


def _join_new(request: HttpRequest, found: Invitation, form: NewPersonForm) -> HttpResponseBase | None:
    if not form.is_valid():
        return None
    try:
        user = invitation_accept_new(invitation=found, **form.cleaned_data)
    except Refused as error:
        put_on(form, error)
        return None
    enter(request, user)
    messages.success(request, _("Welcome. You are in “%(name)s”.") % {"name": found.workspace.name})
    return _inside(found)


def _inside(found: Invitation) -> HttpResponseBase:
    project = Project.objects.filter(workspace=found.workspace_id).order_by("created_at").first()
    return redirect("project-home", project.pk) if project else redirect("members", found.workspace_id)
