"""A second factor: set up with a code of a real authenticator's arithmetic, asked for at every sign-in, bounded."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from account_mail import mails_to
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.test import Client
from django.urls import reverse
from software_key import new_credential

from delivery.sealing import unseal
from workspaces import limits
from workspaces.models import AuditEvent
from workspaces.sign_in.people import factors_reseal

pytestmark = pytest.mark.django_db
PASSWORD = "four words in a row"


def code_of(secret: str, steps: int = 0) -> str:
    """What an authenticator app shows, ``steps`` times thirty seconds from now."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


def sign_in(client: Client, person: Any, **more: str) -> Any:
    return client.post(reverse("sign-in"), {"email": person.email, "password": PASSWORD, **more})


def prove(client: Client, page: str) -> Any:
    """Open a page that first asks for the password once more."""
    asked = client.get(reverse(page))
    assert asked["Location"].startswith(reverse("account_reauthenticate"))
    assert client.post(asked["Location"], {"password": PASSWORD})["Location"] == reverse(page)
    return client.get(reverse(page))


@pytest.fixture
def secret(alice: Any) -> str:
    value = generate_totp_secret()
    TOTP.activate(alice, value)
    return value


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_a_person_adds_an_app_after_giving_the_password_again(client: Client, alice: Any):
    sign_in(client, alice)
    page = prove(client, "mfa_activate_totp")
    key = page.context["form"].secret
    assert key in page.content.decode() and b"data:image/svg+xml;base64," in page.content
    assert client.post(reverse("mfa_activate_totp"), {"code": "000000"}).status_code == 200
    done = client.post(reverse("mfa_activate_totp"), {"code": code_of(key)})
    assert done["Location"] == reverse("mfa_view_recovery_codes")
    assert set(Authenticator.objects.values_list("type", flat=True)) == {"totp", "recovery_codes"}


def test_the_app_is_in_the_audit_log_and_told_by_mail(
    client: Client, alice: Any, django_capture_on_commit_callbacks: Any
):
    sign_in(client, alice)
    key = prove(client, "mfa_activate_totp").context["form"].secret
    with django_capture_on_commit_callbacks(execute=True):
        client.post(reverse("mfa_activate_totp"), {"code": code_of(key)})
    assert AuditEvent.objects.filter(action="user.factor.add", actor=alice).exists()
    assert any("authenticator app was added" in mail for mail in mails_to(alice.email))


def test_keys_of_authenticators_are_sealed_in_the_database(alice: Any, secret: str):
    row = Authenticator.objects.get(user=alice)
    assert secret not in json.dumps(row.data)
    assert unseal(row.data["secret"]) == secret


def test_a_new_secret_key_takes_the_authenticators_along(client: Client, alice: Any, secret: str, settings: Any):
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a new key of this installation"
    assert factors_reseal() == (1, 0)
    settings.SECRET_KEY_FALLBACKS = []
    sign_in(client, alice)
    client.post(reverse("mfa_authenticate"), {"code": code_of(secret)})
    assert signed_in(client)


def test_the_password_alone_lets_nobody_in(client: Client, alice: Any, secret: str):
    asked = sign_in(client, alice, next=reverse("settings"))
    assert asked["Location"] == reverse("mfa_authenticate")
    assert not signed_in(client)
    assert client.get(reverse("settings"))["Location"].startswith(reverse("sign-in"))
    assert client.post(asked["Location"], {"code": "123456"}).status_code == 200
    assert not signed_in(client)
    entered = client.post(asked["Location"], {"code": code_of(secret)})
    assert entered["Location"] == reverse("settings")
    assert signed_in(client)


def test_a_code_works_once(client: Client, alice: Any, secret: str):
    code = code_of(secret)
    sign_in(client, alice)
    assert client.post(reverse("mfa_authenticate"), {"code": code}).status_code == 302
    other = Client()
    sign_in(other, alice)
    assert other.post(reverse("mfa_authenticate"), {"code": code}).status_code == 200
    assert not signed_in(other)


def test_a_code_of_five_minutes_ago_is_refused(client: Client, alice: Any, secret: str):
    sign_in(client, alice)
    client.post(reverse("mfa_authenticate"), {"code": code_of(secret, steps=-10)})
    assert not signed_in(client)


def test_guessing_codes_is_stopped_even_for_the_right_one(client: Client, alice: Any, secret: str):
    for _ in range(limits.SECOND_FACTOR.burst):
        sign_in(client, alice)
        client.post(reverse("mfa_authenticate"), {"code": "000000"})
    refused = client.post(reverse("mfa_authenticate"), {"code": code_of(secret)})
    assert "Too many attempts" in refused.content.decode()
    assert not signed_in(client)


def test_a_recovery_code_works_once_in_place_of_the_app(client: Client, alice: Any):
    sign_in(client, alice)
    key = prove(client, "mfa_activate_totp").context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": code_of(key)})
    hidden = client.get(reverse("mfa_view_recovery_codes"))
    assert hidden.context["codes"] == [] and hidden.context["left"] == 10
    codes = client.post(reverse("mfa_view_recovery_codes"), {"action": "show"}).context["codes"]
    assert len(set(codes)) == 10
    for attempt, lets_in in (("first", True), ("second", False)):
        other = Client()
        sign_in(other, alice)
        other.post(reverse("mfa_authenticate"), {"code": codes[3]})
        assert signed_in(other) is lets_in, attempt
    assert client.get(reverse("mfa_view_recovery_codes")).context["left"] == 9


def test_new_recovery_codes_void_the_former(client: Client, alice: Any):
    sign_in(client, alice)
    key = prove(client, "mfa_activate_totp").context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": code_of(key)})
    before = client.post(reverse("mfa_view_recovery_codes"), {"action": "show"}).context["codes"]
    after = client.post(reverse("mfa_view_recovery_codes"), {"action": "new"}).context["codes"]
    assert len(after) == 10 and not set(before) & set(after)


def test_removing_the_app_asks_who_is_there_and_ends_the_codes_too(client: Client, alice: Any, secret: str):
    sign_in(client, alice)
    client.post(reverse("mfa_authenticate"), {"code": code_of(secret, steps=-1)})
    asked = client.post(reverse("mfa_deactivate_totp"))
    assert asked["Location"].startswith(reverse("account_reauthenticate"))
    assert Authenticator.objects.filter(user=alice).exists()
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    assert client.post(reverse("mfa_deactivate_totp"))["Location"] == reverse("security")
    assert not Authenticator.objects.filter(user=alice).exists()


def test_the_password_is_not_guessed_at_the_second_asking_either(client: Client, alice: Any):
    sign_in(client, alice)
    for _ in range(limits.PASSWORD_AGAIN.burst):
        client.post(reverse("account_reauthenticate"), {"password": "wrong"})
    refused = client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    assert "Too many attempts" in refused.content.decode()


def test_a_forged_passkey_signs_nobody_in(client: Client, alice: Any):
    sent = {"credential": json.dumps(new_credential())}
    assert client.post(reverse("mfa_login_webauthn"), sent)["Location"] == reverse("sign-in")
    assert client.post(reverse("mfa_login_webauthn"), {"credential": "no json"})["Location"] == reverse("sign-in")
    assert not signed_in(client)


def test_with_two_factors_required_nothing_opens_before_there_is_one(client: Client, alice: Any, settings: Any):
    settings.REQUIRE_TWO_FACTORS = True
    sign_in(client, alice)
    assert client.get(reverse("tokens"))["Location"] == reverse("security")
    assert client.post(reverse("tokens"), {"name": "laptop"})["Location"] == reverse("security")
    assert client.get(reverse("security")).status_code == 200
    key = prove(client, "mfa_activate_totp").context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": code_of(key)})
    assert client.get(reverse("tokens")).status_code == 200
    client.post(reverse("mfa_deactivate_totp"))
    assert client.get(reverse("tokens"))["Location"] == reverse("security")
