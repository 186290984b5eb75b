"""A person's own data: taking it along, and removing the account."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import people
from workspaces.downloads import download
from workspaces.errors import Refused
from workspaces.export import person_json
from workspaces.pages.refusals import put_on
from workspaces.scope import SignedInRequest
from workspaces.services import audit
from workspaces.team_forms import TypedEmailForm


@require_http_methods(["GET", "HEAD", "POST"])
def account(request: SignedInRequest) -> HttpResponseBase:
    """Delete the account, confirmed by typing its address."""
    form = TypedEmailForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            people.person_delete(user=request.user, typed_email=form.cleaned_data["typed_email"])
        except Refused as error:
            put_on(form, error)
        else:
            logout(request)
            messages.success(request, _("The account is deleted."))
            return redirect("sign-in")
    context = {
        "form": form,
        "left_behind": people.last_owner_of(request.user),
        "alone_in": people.alone_in(request.user),
    }
    return render(request, "workspaces/account.html", context)


@require_POST
def account_export(request: SignedInRequest) -> HttpResponseBase:
    """Everything about the person, as one JSON file."""
    audit(workspace=None, actor=request.user, action="user.export", obj=request.user)
    return download(request, person_json(request.user), "my-data.json", "application/json")
