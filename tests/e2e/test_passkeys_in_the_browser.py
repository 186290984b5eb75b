"""Passkeys in a real browser, with an authenticator that its debugging protocol plays."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse

PASSWORD = "four words in a row"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def with_authenticator(page: Any) -> tuple[Any, str]:
    """Give the browser an authenticator whose fingerprint is always right; what controls it, and its id."""
    control = page.context.new_cdp_session(page)
    control.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = control.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return control, made["authenticatorId"]


def sign_in(page: Any, person: Any) -> None:
    page.get_by_label("E-mail").fill(person.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_passkey(page: Any, *, alone: bool) -> None:
    page.get_by_role("link", name="Add passkey").click()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Name").fill("Laptop <b>&amp;")
    page.get_by_label("Sign in with it alone").set_checked(alone)
    page.get_by_role("button", name="Make the passkey").click()
    page.wait_for_url(f"**{reverse('mfa_view_recovery_codes')}")


def test_a_passkey_signs_in_alone(visit: Any, alice: Any, project: Any):
    window = visit(None)
    page = window.open(reverse("security"))
    with_authenticator(page)
    sign_in(page, alice)
    page.wait_for_url(f"**{reverse('security')}")
    add_passkey(page, alone=True)
    page.get_by_role("link", name="Done").click()
    assert page.get_by_text("Laptop <b>&amp;", exact=True).first.is_visible()
    assert page.get_by_text("signs you in alone").is_visible()
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"**{reverse('sign-in')}")
    window.open(reverse("tokens"))
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url(f"{window.url}{reverse('tokens')}")
    assert Authenticator.objects.get(type="webauthn").last_used_at is not None
    assert window.problems == []


def test_a_security_key_is_a_second_factor(visit: Any, alice: Any, project: Any):
    window = visit(None)
    page = window.open(reverse("security"))
    control, key = with_authenticator(page)
    sign_in(page, alice)
    add_passkey(page, alone=False)
    page.get_by_role("link", name="Done").click()
    assert page.get_by_text("Security key: after the password").is_visible()
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, alice)
    page.get_by_role("button", name="Use a passkey or security key").wait_for()
    found = Axe().run(page).response["violations"]
    assert [item["id"] for item in found if item["impact"] in ("serious", "critical")] == []
    page.get_by_role("button", name="Use a passkey or security key").click()
    page.wait_for_url(f"**{reverse('project-home', args=[project.pk])}")
    assert window.problems == []
    # The key of another site, or none at all, opens nothing, and the page says so.
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("button", name="Sign out").click()
    control.send("WebAuthn.clearCredentials", {"authenticatorId": key})
    sign_in(page, alice)
    page.get_by_role("button", name="Use a passkey or security key").click()
    page.get_by_text("The browser got no passkey").wait_for()
    page.goto(f"{window.url}{reverse('settings')}")
    assert reverse("sign-in") in page.url
