"""Signing in: by e-mail in any case, bounded in tries, telling nobody who has an account, leading nowhere foreign."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from workspaces import limits
from workspaces.models import RateBucket

pytestmark = pytest.mark.django_db
PASSWORD = "five words in one row"


@pytest.fixture
def person(alice: Any) -> Any:
    alice.set_password(PASSWORD)
    alice.save()
    return alice


def sign_in(client: Client, email: str, password: str = PASSWORD, **more: str) -> Any:
    return client.post(reverse("sign-in"), {"email": email, "password": password, **more})


def test_it_signs_in_whatever_the_case_of_the_address(client: Client, person: Any):
    assert sign_in(client, "ALICE@Example.COM").status_code == 302
    assert client.session["_auth_user_id"] == str(person.pk)


def test_a_wrong_password_and_an_unknown_address_read_the_same(client: Client, person: Any):
    wrong = sign_in(client, person.email, "not the password").content.decode()
    unknown = sign_in(client, "nobody@example.com", "not the password").content.decode()
    person.is_active = False
    person.save()
    disabled = sign_in(client, person.email).content.decode()
    said = "No account has this e-mail address and password."
    assert said in wrong
    assert said in unknown
    assert said in disabled
    assert "_auth_user_id" not in client.session


def test_too_many_tries_for_one_address_are_refused_even_with_the_right_password(client: Client, person: Any):
    for _ in range(limits.SIGN_IN_BY_EMAIL.burst):
        assert sign_in(client, person.email, "wrong").status_code == 200
    refused = sign_in(client, person.email)
    assert refused.status_code == 429
    assert "Too many attempts" in refused.content.decode()


def test_the_limit_eases_with_time(client: Client, person: Any):
    for _ in range(limits.SIGN_IN_BY_EMAIL.burst):
        sign_in(client, person.email, "wrong")
    RateBucket.objects.update(filled_at=timezone.now() - timedelta(seconds=limits.SIGN_IN_BY_EMAIL.every_s + 1))
    assert sign_in(client, person.email).status_code == 302


def test_unknown_addresses_are_limited_like_known_ones(client: Client):
    for _ in range(limits.SIGN_IN_BY_EMAIL.burst):
        sign_in(client, "nobody@example.com")
    assert sign_in(client, "nobody@example.com").status_code == 429


def test_one_machine_cannot_try_many_addresses(client: Client):
    for number in range(limits.SIGN_IN_BY_ADDRESS.burst):
        assert sign_in(client, f"person{number}@example.com").status_code == 200
    assert sign_in(client, "another@example.com").status_code == 429


def test_success_forgives_the_failures_before_it(client: Client, person: Any):
    for _ in range(limits.SIGN_IN_BY_EMAIL.burst - 1):
        sign_in(client, person.email, "wrong")
    assert sign_in(client, person.email).status_code == 302
    client.logout()
    assert sign_in(client, person.email, "wrong").status_code == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_it_never_leads_to_another_site(client: Client, person: Any, target: str):
    assert target not in client.get(reverse("sign-in"), {"next": target}).content.decode()
    answer = sign_in(client, person.email, next=target)
    assert answer["Location"] == reverse("home")


def test_it_leads_on_to_where_one_wanted(client: Client, person: Any, project: Any):
    wanted = reverse("datasets", args=[project.pk])
    assert client.get(wanted)["Location"] == f"{reverse('sign-in')}?next={wanted}"
    assert sign_in(client, person.email, next=wanted)["Location"] == wanted


def test_signing_out_takes_a_post(client: Client, person: Any):
    client.force_login(person)
    assert client.get(reverse("sign-out")).status_code == 405
    assert "_auth_user_id" in client.session
    assert client.post(reverse("sign-out"))["Location"] == reverse("sign-in")
    assert "_auth_user_id" not in client.session


def test_the_password_is_never_sent_back(client: Client, person: Any):
    assert "not-the-password" not in sign_in(client, person.email, "not-the-password").content.decode()
