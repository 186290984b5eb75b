"""Signing in and out, and the page where a person sees and changes how they sign in."""

from __future__ import annotations

from typing import Any, cast

from allauth.account import signals
from allauth.account.adapter import get_adapter
from allauth.account.app_settings import EmailVerificationMethod
from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.internal.flows.logout import logout
from allauth.account.models import EmailAddress, Login
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal import flows as recovery_flows
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.internal.flows import sessions as session_flows
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import limits
from workspaces.forms import SignInForm
from workspaces.live import access_changed
from workspaces.models import User
from workspaces.scope import SignedInRequest
from workspaces.sign_in import browsers, people
from workspaces.sign_in.forms import TOO_MANY


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """E-mail and password, then a second factor if there is one; leads on to ``next`` when that is a page of ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    hosts = {request.get_host()}
    safe = url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure())
    target = wanted if safe else reverse("home")
    if request.user.is_authenticated:
        return redirect(target)
    form = SignInForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid() and form.user is not None:
        return _enter(request, form.user, target)
    status = 429 if form.has_error("__all__", "limited") else 200
    context = {
        "form": form,
        "next": wanted if safe else "",
        "sign_up": settings.SIGN_UP.possible,
        "sso": settings.OIDC,
        # Browsers know passkeys for names only.
        "passkeys_possible": browsers.has_name(request.get_host()),
    }
    return render(request, "workspaces/sign_in.html", context, status=status)


def _enter(request: HttpRequest, user: User, target: str) -> HttpResponse:
    people.address_ensure(user=user)
    check = EmailVerificationMethod.NONE if people.address_proven(user) else EmailVerificationMethod.MANDATORY
    login = Login(user=user, email=user.email, email_verification=check, redirect_url=target)
    return cast("HttpResponse", perform_password_login(request, {"email": user.email}, login))


@login_not_required
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End this session, and the sockets it has open; in the middle of signing in, begin anew."""
    user_id = request.user.pk
    logout(request, show_message=False)
    if user_id is not None:
        access_changed([user_id])
    return redirect("sign-in")


@never_cache
@require_safe
def security(request: SignedInRequest) -> HttpResponse:
    """Password, second factors, passkeys, and where the person is signed in."""
    user = request.user
    authenticators = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    codes = next((item for item in authenticators if item.type == Authenticator.Type.RECOVERY_CODES), None)
    context = {
        "password": user.has_usable_password(),
        "totp": next((item for item in authenticators if item.type == Authenticator.Type.TOTP), None),
        "passkeys": [item for item in authenticators if item.type == Authenticator.Type.WEBAUTHN],
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else None,
        "sessions": browsers.sessions_of(user, request.session.session_key),
        "sso": settings.OIDC,
        "connected": SocialAccount.objects.filter(user=user).exists(),
        "waiting": EmailAddress.objects.filter(user=user, verified=False).first(),
        "required": settings.REQUIRE_TWO_FACTORS,
        "passkeys_possible": browsers.has_name(request.get_host()),
    }
    return render(request, "workspaces/security.html", context)


@require_POST
def sessions_end(request: SignedInRequest) -> HttpResponse:
    """Sign out everywhere else, or of one session that the form names."""
    rows = UserSession.objects.filter(user=request.user).exclude(session_key=request.session.session_key)
    if wanted := request.POST.get("session", ""):
        rows = rows.filter(pk=int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 18 else 0)
    ended = list(rows)
    session_flows.end_sessions(request, ended)
    people.note(request.user, "user.sessions.end", count=len(ended))
    access_changed([request.user.pk])
    messages.success(request, _("Signed out elsewhere.") if not wanted else _("Signed out there."))
    return redirect("security")


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: SignedInRequest) -> HttpResponse:
    """A new password; every other session of the person ends with the old one."""
    if not request.user.has_usable_password():
        return redirect("security")
    form = PasswordChangeForm(request.user, request.POST or None)
    status = 200
    if request.method == "POST":
        if not limits.take(limits.PASSWORD_AGAIN, str(request.user.pk)):
            form, status = PasswordChangeForm(request.user), 429
            messages.error(request, str(TOO_MANY))
        elif form.is_valid():
            return _password_changed(request, form)
    return render(request, "workspaces/password.html", {"form": form}, status=status)


def _password_changed(request: SignedInRequest, form: PasswordChangeForm) -> HttpResponse:
    limits.give_back(limits.PASSWORD_AGAIN, str(request.user.pk))
    update_session_auth_hash(request, form.save())
    signals.password_changed.send(sender=User, request=request, user=request.user)
    get_adapter().send_notification_mail("account/email/password_changed", request.user)
    messages.success(request, _("The password is changed. Other browsers you were signed in with are signed out."))
    return redirect("settings")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@reauthentication_required(app="allauth.mfa")
def recovery_codes(request: SignedInRequest) -> HttpResponse:
    """Codes for when the app or passkey is lost: shown on request, or made anew, which voids the former."""
    context: dict[str, Any] = {"codes": []}
    if not recovery_flows.can_generate_recovery_codes(request.user):
        return redirect("security")
    if request.method == "POST" and request.POST.get("action") == "new":
        recovery_flows.generate_recovery_codes(request)
    found = Authenticator.objects.filter(user=request.user, type=Authenticator.Type.RECOVERY_CODES).first()
    unused = found.wrap().get_unused_codes() if found else []
    context["left"] = len(unused)
    if request.method == "POST":
        context["codes"] = unused
    return render(request, "workspaces/sign_in/recovery_codes.html", context)
