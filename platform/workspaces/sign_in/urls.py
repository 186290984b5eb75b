"""Addresses of signing in, and of what a person sets about it. Names with ``account_`` and ``mfa_`` are allauth's."""

from __future__ import annotations

from collections.abc import Callable

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkeys
from django.http import HttpResponseBase
from django.urls import URLPattern, path, register_converter
from django.urls.converters import StringConverter
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from workspaces.sign_in import doors, oidc, views


class Hex(StringConverter):
    """A person's id without dashes: what follows the dash after it is the key of a link."""

    regex = "[0-9a-f]{32}"


register_converter(Hex, "hex")

View = Callable[..., HttpResponseBase]
_asked = require_http_methods(["GET", "HEAD", "POST"])
_shown = require_http_methods(["GET", "HEAD"])


def _form(route: str, view: View, name: str) -> URLPattern:
    return path(route, never_cache(_asked(view)), name=name)


def _page(route: str, view: View, name: str) -> URLPattern:
    return path(route, _shown(view), name=name)


urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-in/", views.sign_in, name="account_login"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("sign-out/", views.sign_out, name="account_logout"),
    path("sign-in/passkey/", doors.passkey, name="mfa_login_webauthn"),
    _form("sign-in/second-factor/", factors.authenticate, "mfa_authenticate"),
    path("sign-in/sso/", oidc.start, oidc.NAMED, name="openid_connect_login"),
    path("sign-in/sso/callback/", oidc.callback, oidc.NAMED, name="openid_connect_callback"),
    _form("sign-up/", account.signup, "account_signup"),
    _page("sign-up/sent/", account.email_verification_sent, "account_email_verification_sent"),
    _form("sign-up/confirm/<str:key>/", account.confirm_email, "account_confirm_email"),
    _form("sign-in/forgotten/", account.password_reset, "account_reset_password"),
    _page("sign-in/forgotten/sent/", account.password_reset_done, "account_reset_password_done"),
    _form(
        "sign-in/forgotten/<hex:uidb36>-<str:key>/", account.password_reset_from_key, "account_reset_password_from_key"
    ),
    _page("sign-in/forgotten/changed/", account.password_reset_from_key_done, "account_reset_password_from_key_done"),
    path("settings/security/", views.security, name="security"),
    path("settings/security/", views.security, name="mfa_index"),
    path("settings/security/", views.security, name="mfa_list_webauthn"),
    path("settings/security/sessions/end/", views.sessions_end, name="sessions-end"),
    path("settings/password/", views.password, name="password"),
    path("settings/password/", views.password, name="account_change_password"),
    _form("settings/email/", account.email, "account_email"),
    _form("settings/security/confirm/", account.reauthenticate, "account_reauthenticate"),
    _form("settings/security/confirm/code/", factors.reauthenticate, "mfa_reauthenticate"),
    _form("settings/security/confirm/passkey/", doors.passkey_again, "mfa_reauthenticate_webauthn"),
    _form("settings/security/app/add/", totp.activate_totp, "mfa_activate_totp"),
    _form("settings/security/app/remove/", totp.deactivate_totp, "mfa_deactivate_totp"),
    path("settings/security/codes/", views.recovery_codes, name="mfa_view_recovery_codes"),
    _form("settings/security/passkeys/add/", passkeys.add_webauthn, "mfa_add_webauthn"),
    _form("settings/security/passkeys/<int:pk>/rename/", passkeys.edit_webauthn, "mfa_edit_webauthn"),
    _form("settings/security/passkeys/<int:pk>/remove/", passkeys.remove_webauthn, "mfa_remove_webauthn"),
]
