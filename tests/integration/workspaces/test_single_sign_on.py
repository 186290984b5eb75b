"""Single sign-on against a real provider on loopback: who gets in, as whom, and every token that must not count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider

from config.sign_in import SignUp, SingleSignOn, providers
from workspaces.models import AuditEvent, Membership, Role, User

pytestmark = pytest.mark.django_db
FRIDA = {"sub": "42", "email": "Frida@example.org", "email_verified": True, "name": "Frida Kahlo"}


@pytest.fixture(scope="module")
def loopback() -> Iterator[Provider]:
    with running_provider() as found:
        yield found


@pytest.fixture
def provider(loopback: Provider, settings: Any) -> Iterator[Provider]:
    """The provider as new, and this installation set up to use it."""
    fresh = Provider(loopback.url, loopback.key, dict(FRIDA))
    loopback.__dict__.update(fresh.__dict__)
    use(settings, loopback)
    cache.clear()
    yield loopback
    cache.clear()


def use(settings: Any, provider: Provider, **changes: Any) -> None:
    sso = SingleSignOn("Example", provider.url, CLIENT_ID, CLIENT_SECRET)
    settings.OIDC = replace(sso, **changes)
    settings.SOCIALACCOUNT_PROVIDERS = providers(settings.OIDC)


def go(client: Client, **query: str) -> Any:
    """Follow the way to the provider and back."""
    start = client.get(reverse("openid_connect_login"), query)
    assert start.status_code == 302, start.content
    at_provider = requests.get(start["Location"], allow_redirects=False, timeout=5)
    back = urlsplit(at_provider.headers["Location"])
    assert back.path == reverse("openid_connect_callback")
    return client.get(back.path, {name: items[0] for name, items in parse_qs(back.query).items()})


def signed_in(client: Client) -> str | None:
    return client.session.get("_auth_user_id")


def refused(client: Client, **query: str) -> str:
    answer = go(client, **query)
    assert answer.status_code == 403
    assert signed_in(client) is None
    assert not User.objects.filter(email__iexact=FRIDA["email"]).exists()
    return str(answer.content.decode())


def test_a_new_person_comes_in_with_the_name_and_address_the_provider_says(client: Client, provider: Provider):
    assert "Sign in with Example" in client.get(reverse("sign-in")).content.decode()
    assert go(client)["Location"] == reverse("home")
    frida = User.objects.get(email__iexact="frida@example.org")
    assert signed_in(client) == str(frida.pk)
    assert (frida.name, frida.has_usable_password()) == ("Frida Kahlo", False)
    assert not frida.memberships.exists()
    assert AuditEvent.objects.filter(action="user.create", object_id=str(frida.pk)).exists()


def test_they_come_again_as_the_same_even_under_another_address(client: Client, provider: Provider):
    go(client)
    provider.person |= {"email": "frida.kahlo@example.org"}
    again = Client()
    go(again)
    assert signed_in(again) == signed_in(client)
    assert User.objects.count() == 1


def test_whoever_has_an_account_here_already_keeps_it(client: Client, provider: Provider, alice: Any):
    provider.person |= {"email": alice.email.upper()}
    go(client)
    assert signed_in(client) == str(alice.pk)
    assert alice.memberships.get().role == Role.OWNER


def test_it_leads_on_to_the_page_one_wanted_and_never_elsewhere(client: Client, provider: Provider):
    assert go(client, next=reverse("tokens"))["Location"] == reverse("tokens")
    assert go(Client(), next="https://evil.example/")["Location"] == reverse("home")


def test_the_link_cannot_be_made_to_ask_for_more_or_to_connect_accounts(client: Client, provider: Provider, alice: Any):
    client.force_login(alice)
    query = {"process": "connect", "scope": "everything", "auth_params": "prompt=none"}
    asked = parse_qs(urlsplit(client.get(reverse("openid_connect_login"), query)["Location"]).query)
    assert set(asked["scope"][0].split()) == {"openid", "profile", "email"}
    assert "prompt" not in asked
    go(client, **query)
    assert signed_in(client) == str(User.objects.get(email__iexact=FRIDA["email"]).pk), "signed in, not connected"


def test_new_people_join_the_team_that_is_set_for_them(
    client: Client, provider: Provider, settings: Any, workspace: Any
):
    use(settings, provider, workspace=workspace.slug, role="editor")
    go(client)
    assert Membership.objects.get(workspace=workspace).role == Role.EDITOR
    Membership.objects.all().delete()
    go(Client())
    assert not Membership.objects.exists(), "who was removed does not come back by signing in"


def test_a_second_factor_is_asked_for_all_the_same(client: Client, provider: Provider, alice: Any):
    TOTP.activate(alice, generate_totp_secret())
    provider.person |= {"email": alice.email}
    assert go(client)["Location"] == reverse("mfa_authenticate")
    assert signed_in(client) is None


def test_a_disabled_person_stays_out(client: Client, provider: Provider, alice: Any):
    provider.person |= {"email": alice.email}
    go(client)
    alice.is_active = False
    alice.save()
    other = Client()
    go(other)
    assert signed_in(other) is None


def test_an_address_that_is_not_verified_is_refused(client: Client, provider: Provider):
    provider.person |= {"email_verified": False}
    assert "does not say that your e-mail address is verified" in refused(client)
    del provider.person["email_verified"]
    refused(Client())


def test_an_unverified_address_takes_nobodys_account(client: Client, provider: Provider, alice: Any):
    provider.person |= {"email": alice.email, "email_verified": False}
    assert go(client).status_code == 403
    assert signed_in(client) is None


def test_whoever_took_an_address_before_its_owner_came_loses_it(client: Client, provider: Provider, settings: Any):
    settings.SIGN_UP = SignUp(open=True)
    password = "the words of a thief"
    taken = {"email": FRIDA["email"], "name": "Thief", "password1": password}
    Client().post(reverse("account_signup"), taken)
    go(client)
    assert User.objects.filter(email__iexact=FRIDA["email"]).count() == 1
    thief = Client()
    thief.post(reverse("sign-in"), {"email": FRIDA["email"], "password": password})
    assert signed_in(thief) is None


def test_only_addresses_of_the_named_domains_are_let_in(client: Client, provider: Provider, settings: Any):
    use(settings, provider, domains=("example.net",))
    assert "cannot sign in here" in refused(client)
    use(settings, provider, domains=("example.net", "example.org"))
    assert go(Client()).status_code == 302


def test_new_people_can_be_kept_out_whatever_sign_up_says(client: Client, provider: Provider, settings: Any):
    use(settings, provider, new_people=False)
    settings.SIGN_UP = SignUp(open=True)
    assert "no account here yet" in refused(client)


def test_an_id_token_of_another_issuer_is_refused(client: Client, provider: Provider):
    provider.bend = lambda claims: claims.update(iss="https://evil.example")
    refused(client)


def test_a_provider_that_calls_itself_otherwise_is_refused(client: Client, provider: Provider):
    provider.issuer = "https://evil.example"
    provider.bend = lambda claims: claims.update(iss="https://evil.example")
    refused(client)


def test_an_id_token_signed_by_another_key_is_refused(client: Client, provider: Provider):
    foreign = generate_private_key(65537, 2048)
    provider.sign = lambda claims: provider.signed(claims, foreign)
    refused(client)
    assert "/jwks" in provider.seen


def test_an_id_token_without_a_signature_or_signed_by_the_shared_secret_is_refused(client: Client, provider: Provider):
    provider.sign = lambda claims: jwt.encode(claims, None, algorithm="none", headers={"kid": "one"})
    refused(client)
    provider.sign = lambda claims: provider.signed(claims, CLIENT_SECRET.ljust(32, "."), "HS256")
    refused(Client())


@pytest.mark.parametrize(
    "claims", [{"aud": "another client"}, {"exp": 1}, {"sub": "43"}], ids=["audience", "expired", "subject"]
)
def test_an_id_token_for_others_or_of_old_is_refused(client: Client, provider: Provider, claims: dict[str, Any]):
    provider.userinfo = {"sub": "42"}
    provider.bend = lambda token: token.update(claims)
    refused(client)


def test_a_token_answer_without_an_id_token_is_refused(client: Client, provider: Provider):
    provider.sign = lambda claims: ""
    refused(client)


def test_a_code_that_this_browser_did_not_ask_for_signs_nobody_in(client: Client, provider: Provider):
    start = Client().get(reverse("openid_connect_login"))
    back = urlsplit(requests.get(start["Location"], allow_redirects=False, timeout=5).headers["Location"])
    answer = client.get(f"{back.path}?{back.query}")
    assert answer.status_code == 403
    assert signed_in(client) is None


def test_a_provider_that_does_not_answer_is_said_so(client: Client, provider: Provider, settings: Any):
    use(settings, provider, issuer="http://127.0.0.1:1")
    answer = client.get(reverse("openid_connect_login"))
    assert answer.status_code == 403
    assert "cannot be reached" in answer.content.decode()


def test_without_it_set_up_there_is_nothing(client: Client, settings: Any, db: None):
    settings.OIDC = None
    assert client.get(reverse("openid_connect_login")).status_code == 404
    assert reverse("openid_connect_login") not in client.get(reverse("sign-in")).content.decode()
