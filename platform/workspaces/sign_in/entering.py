"""Signing in a person whose password was just set: nothing more is asked, and the session is listed like any other."""

from __future__ import annotations

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import record_authentication
from allauth.account.signals import user_logged_in
from django.http import HttpRequest

from workspaces.models import User


def enter(request: HttpRequest, user: User) -> None:
    record_authentication(request, user, method="password", email=user.email)
    get_adapter().login(request, user)
    user_logged_in.send(sender=User, request=request, user=user)
