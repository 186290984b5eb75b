"""A session as it is right after its person gave the password once more."""

from __future__ import annotations

import time

from allauth.account.internal.userkit import user_id_to_str
from django.test import Client

from workspaces.models import User


def just_proven(client: Client, user: User) -> None:
    """Mark the session so that pages that change how one signs in open at once."""
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time(), "reauthenticated": True}]
    session["account_authentication_methods_user"] = user_id_to_str(user)
    session.save()
