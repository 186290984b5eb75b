"""Two factors for everybody, where the installation asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _

from workspaces.models import User

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


def factor_missing(session: Any, user: User) -> bool:
    """Whether the installation asks for a second factor and this session, a mapping, goes without one.

    Programs are not asked: a token was made by someone who had one. Nor are people who came by single sign-on, where
    factors are the provider's affair.
    """
    if not settings.REQUIRE_TWO_FACTORS:
        return False
    methods = {record.get("method") for record in session.get(AUTHENTICATION_METHODS_SESSION_KEY) or []}
    return "socialaccount" not in methods and not is_mfa_enabled(user)


class TwoFactorsMiddleware(MiddlewareMixin):
    """Whoever lacks a factor that is asked for gets no further than to adding one."""

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        if not settings.REQUIRE_TWO_FACTORS or not getattr(view, "login_required", True):
            return None
        name = request.resolver_match.url_name if request.resolver_match else None
        if name in OPEN or not request.user.is_authenticated or not factor_missing(request.session, request.user):
            return None
        messages.warning(request, _("This installation asks for two factors. Add an authenticator app or a passkey."))
        return redirect("security")
