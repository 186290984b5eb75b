"""Two factors for everybody, where the installation asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

# What a person needs to get a second factor, or to go away.
OPEN = frozenset(
    {
        "security",
        "mfa_index",
        "mfa_activate_totp",
        "mfa_add_webauthn",
        "mfa_view_recovery_codes",
        "account_reauthenticate",
        "password",
        "sign-out",
        "account_logout",
        "theme",
    }
)
KNOWN = "tuneyard_two_factors"


class TwoFactorsMiddleware(MiddlewareMixin):
    """With REQUIRE_TWO_FACTORS, whoever signed in by password alone gets no further than to a second factor.

    Programs are not asked: a token was made by someone who had one. Nor are people who came by single sign-on, where
    factors are the provider's affair.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        if not settings.REQUIRE_TWO_FACTORS or not getattr(view, "login_required", True):
            return None
        if not request.user.is_authenticated or request.session.get(KNOWN):
            return None
        name = request.resolver_match.url_name if request.resolver_match else None
        if name in OPEN:
            return None
        methods = {record.get("method") for record in get_authentication_records(request, request.user)}
        if "socialaccount" in methods or is_mfa_enabled(request.user):
            request.session[KNOWN] = True
            return None
        messages.warning(request, _("This installation asks for two factors. Add an authenticator app or a passkey."))
        return redirect("security")
