"""Where one is signed in: listed as one knows it, ended from afar, and over at once for who is disabled."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from workspaces.models import AuditEvent
from workspaces.sign_in.browsers import browser_name, has_name, sessions_of

pytestmark = pytest.mark.django_db
PASSWORD = "four words in a row"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EDGE = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile/15E148 Safari/604.1"
)


def sign_in(person: Any, agent: str = FIREFOX, address: str = "192.0.2.7") -> Client:
    client = Client(headers={"User-Agent": agent}, REMOTE_ADDR=address)
    assert client.post(reverse("sign-in"), {"email": person.email, "password": PASSWORD}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get(reverse("settings")).status_code == 200


def test_each_session_is_listed_with_browser_and_address(alice: Any):
    here = sign_in(alice)
    sign_in(alice, IPHONE, "192.0.2.8")
    lines = here.get(reverse("security")).context["sessions"]
    assert [(line.browser, line.address, line.current) for line in lines] == [
        ("Firefox on Linux", "192.0.2.7", True),
        ("Safari on iPhone", "192.0.2.8", False),
    ]


def test_one_session_is_ended_from_another(alice: Any):
    here, lost, kept = sign_in(alice), sign_in(alice, IPHONE), sign_in(alice, EDGE)
    target = next(line for line in sessions_of(alice, None) if line.browser == "Safari on iPhone")
    here.post(reverse("sessions-end"), {"session": target.id})
    assert [is_in(client) for client in (here, lost, kept)] == [True, False, True]


def test_signing_out_everywhere_else_leaves_this_one(alice: Any):
    here, *others = (sign_in(alice) for _ in range(3))
    here.post(reverse("sessions-end"))
    assert is_in(here) and not any(is_in(client) for client in others)
    assert len(here.get(reverse("security")).context["sessions"]) == 1
    assert AuditEvent.objects.get(action="user.sessions.end").detail == {"count": 2}


def test_nobody_ends_the_session_of_another(alice: Any, bob: Any):
    hers, his = sign_in(alice), sign_in(bob)
    target = sessions_of(alice, None)[0]
    for session in (str(target.id), "x", "9" * 30, "-1"):
        assert his.post(reverse("sessions-end"), {"session": session}).status_code == 302
    assert is_in(hers)


def test_sessions_that_ended_with_a_password_are_not_listed(alice: Any):
    old, here = sign_in(alice), sign_in(alice)
    new = "another four words now"
    here.post(reverse("password"), {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    assert not is_in(old)
    assert [line.current for line in here.get(reverse("security")).context["sessions"]] == [True]


def test_a_disabled_person_is_out_at_the_next_request(alice: Any):
    here = sign_in(alice)
    alice.is_active = False
    alice.save()
    assert not is_in(here)


def test_signing_in_makes_a_new_session_key(client: Client, alice: Any):
    client.get(reverse("sign-in"))
    session = client.session
    session["planted"] = "by whoever set the cookie"
    session.save()
    planted = session.session_key
    client.post(reverse("sign-in"), {"email": alice.email, "password": PASSWORD})
    assert client.session.session_key != planted


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (EDGE, "Edge on Windows"),
        (IPHONE, "Safari on iPhone"),
        ("curl/8.5.0", "curl"),
        ("", "A program"),
        ("<script>" * 100, "<script>" * 5),
    ],
)
def test_browsers_are_called_as_people_call_them(agent: str, name: str):
    assert browser_name(agent) == name


@pytest.mark.parametrize(
    ("host", "named"),
    [("localhost:8000", True), ("127.0.0.1:8000", False), ("[::1]:8000", False), ("[::1]", False), ("ty.org", True)],
)
def test_a_host_has_a_name_or_a_number(host: str, named: bool):
    assert has_name(host) is named
