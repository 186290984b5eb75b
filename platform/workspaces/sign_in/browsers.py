"""The sessions of a person, as they recognise them: which browser on which system, from where, since when."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

from allauth.usersessions.models import UserSession
from django.conf import settings

from workspaces.models import User

# The first that is found: browsers carry the names of those they want to be taken for.
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@dataclass(frozen=True)
class SessionLine:
    id: int
    browser: str
    address: str
    since: datetime
    current: bool


def sessions_of(user: User, current_key: str | None) -> list[SessionLine]:
    """The sessions that still work, this one first. Reads only; what has ended is cleared at the next sign-in."""
    rows = list(UserSession.objects.filter(user=user).order_by("-created_at")[:200])
    store = import_module(settings.SESSION_ENGINE).SessionStore
    lines = [
        SessionLine(row.pk, browser_name(row.user_agent), row.ip, row.created_at, row.session_key == current_key)
        for row in rows
        if row.session_key == current_key or _works(store(row.session_key), user)
    ]
    return sorted(lines, key=lambda line: not line.current)


def _works(session: object, user: User) -> bool:
    known = session.load()  # type: ignore[attr-defined]
    return known.get("_auth_user_id") == str(user.pk) and known.get("_auth_user_hash") == user.get_session_auth_hash()


def browser_name(agent: str) -> str:
    """``"Firefox on Linux"``; what says nothing about itself is a program."""
    browser = next((name for mark, name in BROWSERS if mark in agent), "")
    system = next((name for mark, name in SYSTEMS if mark in agent), "")
    if not browser:
        return (agent.split("/")[0].strip()[:40] or "A program") if agent else "A program"
    return f"{browser} on {system}" if system else browser


def has_name(host: str) -> bool:
    """Whether a host is called by a name, not by an IP address."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return True
    return False
