"""Signing in by a passkey alone, and showing by a passkey that it is still the same person."""

from __future__ import annotations

from typing import Any

from allauth.mfa.webauthn.views import LoginWebAuthnView, ReauthenticateWebAuthnView
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from workspaces import limits
from workspaces.sign_in.forms import TOO_MANY

_allauth_view = LoginWebAuthnView.as_view()


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def passkey(request: HttpRequest) -> HttpResponseBase:
    """What the browser must sign (GET, by our script), and the signature it made (POST)."""
    if request.method == "POST" and not limits.take(limits.SIGN_IN_BY_ADDRESS, request.META.get("REMOTE_ADDR", "")):
        messages.error(request, str(TOO_MANY))
        return redirect("sign-in")
    response: HttpResponseBase = _allauth_view(request)
    return response


class PasskeyAgainView(ReauthenticateWebAuthnView):
    def form_invalid(self, form: Any) -> HttpResponse:
        """Another try, here: the library would lead to the sign-in page."""
        for message in form.errors.get("credential", []):
            messages.error(self.request, message)
        return redirect("mfa_reauthenticate_webauthn")


passkey_again = PasskeyAgainView.as_view()
