"""What goes by mail: a forgotten password, a new address, signing up. Links lead to us, work once, and tell nobody."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from account_mail import link_in, mails_to
from allauth.account.models import EmailAddress
from django.test import Client
from django.urls import reverse

from config.sign_in import SignUp
from delivery.models import Message
from workspaces import limits
from workspaces.models import AuditEvent, User
from workspaces.services import user_create

pytestmark = pytest.mark.django_db
PASSWORD, NEW = "four words in a row", "another four words now"


def path_of(link: str) -> str:
    return urlsplit(link).path


def sign_in(client: Client, email: str, password: str = PASSWORD) -> Any:
    return client.post(reverse("sign-in"), {"email": email, "password": password})


def forgotten(client: Client, email: str, **options: Any) -> Any:
    return client.post(reverse("account_reset_password"), {"email": email}, **options)


def choose(client: Client, link: str, password: str = NEW) -> Any:
    """Open the link of a mail and send the form behind it."""
    page = client.get(path_of(link), follow=True)
    if page.context.get("token_fail"):
        return page
    return client.post(page.context["action_url"], {"password1": password, "password2": password}, follow=True)


def test_a_forgotten_password_is_chosen_anew_by_a_link_that_works_once(client: Client, alice: Any):
    elsewhere = Client()
    elsewhere.force_login(alice)
    assert forgotten(client, alice.email.upper())["Location"] == reverse("account_reset_password_done")
    (mail,) = mails_to(alice.email)
    assert "The password is changed" in choose(client, link_in(mail)).content.decode()
    assert sign_in(Client(), alice.email, NEW).status_code == 302
    assert sign_in(Client(), alice.email, PASSWORD).status_code == 200
    assert elsewhere.get(reverse("settings")).status_code == 302, "sessions end with the former password"
    assert choose(Client(), link_in(mail), "a third set of words").context["token_fail"]
    assert AuditEvent.objects.filter(action="user.password", actor=alice).exists()


def test_the_link_leads_to_us_whatever_host_the_request_named(client: Client, alice: Any, settings: Any):
    settings.PUBLIC_URL = "https://tuneyard.example.org"
    settings.ALLOWED_HOSTS = ["*"]
    forgotten(client, alice.email, HTTP_HOST="evil.example")
    assert link_in(mails_to(alice.email)[0]).startswith("https://tuneyard.example.org/sign-in/forgotten/")


def test_the_key_lies_sealed_in_the_outbox(client: Client, alice: Any):
    forgotten(client, alice.email)
    link = link_in(mails_to(alice.email)[0])
    assert link.rstrip("/").rpartition("-")[2] not in str(Message.objects.values().get())


def test_unknown_and_disabled_addresses_read_the_same_and_get_no_mail(client: Client, alice: Any, bob: Any):
    bob.is_active = False
    bob.save()
    said = [
        forgotten(Client(), email, follow=True).content.partition(b"<main")[2]
        for email in (alice.email, "nobody@example.com", bob.email)
    ]
    assert b"a link to a new password" in said[0] and said == [said[0]] * 3
    assert mails_to("nobody@example.com") == mails_to(bob.email) == []


def test_an_address_gets_few_mails(client: Client, alice: Any):
    for _ in range(limits.ACCOUNT_MAIL.burst + 3):
        forgotten(client, alice.email)
    assert len(mails_to(alice.email)) == limits.ACCOUNT_MAIL.burst


def test_a_weak_new_password_is_refused(client: Client, alice: Any):
    forgotten(client, alice.email)
    page = choose(client, link_in(mails_to(alice.email)[0]), "password")
    assert page.context["form"].errors["password1"]
    assert sign_in(Client(), alice.email).status_code == 302


def test_a_new_address_counts_once_its_link_is_opened(client: Client, alice: Any):
    old = alice.email
    sign_in(client, old)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    client.post(reverse("account_email"), {"email": "new@example.org", "action_add": ""})
    assert "new@example.org" in client.get(reverse("security")).content.decode()
    assert sign_in(Client(), "new@example.org").status_code == 200, "not yet"
    link = path_of(link_in(mails_to("new@example.org")[0]))
    client.get(link)
    alice.refresh_from_db()
    assert alice.email == old, "a link that is only fetched, by a mail scanner, changes nothing"
    client.post(link)
    alice.refresh_from_db()
    assert alice.email == "new@example.org"
    assert sign_in(Client(), "new@example.org").status_code == 302
    assert "is now new@example.org" in mails_to(old)[0], "the old address is told"


def test_changing_the_address_asks_for_the_password(client: Client, alice: Any):
    sign_in(client, alice.email)
    asked = client.post(reverse("account_email"), {"email": "new@example.org", "action_add": ""})
    assert asked["Location"].startswith(reverse("account_reauthenticate"))
    assert not EmailAddress.objects.filter(email="new@example.org").exists()


def test_anothers_address_cannot_be_taken(client: Client, alice: Any, bob: Any):
    sign_in(client, alice.email)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    client.post(reverse("account_email"), {"email": bob.email, "action_add": ""})
    for mail in mails_to(bob.email):
        if "http" in mail:
            client.post(path_of(link_in(mail)))
    alice.refresh_from_db()
    assert alice.email != bob.email
    assert User.objects.get(email=bob.email) == bob


def sign_up(client: Client, email: str) -> Any:
    return client.post(reverse("account_signup"), {"email": email, "name": "Dora", "password1": PASSWORD})


def test_sign_up_is_closed_unless_said_otherwise(client: Client, db: None):
    assert "Sign-up is closed" in client.get(reverse("account_signup")).content.decode()
    assert "Sign-up is closed" in sign_up(client, "dora@example.org").content.decode()
    assert not User.objects.exists()
    assert reverse("account_signup") not in client.get(reverse("sign-in")).content.decode()


def test_who_signs_up_gets_in_after_the_mail_and_not_before(client: Client, settings: Any, db: None):
    settings.SIGN_UP = SignUp(open=True)
    assert sign_up(client, "Dora@example.org")["Location"] == reverse("account_email_verification_sent")
    assert sign_in(Client(), "dora@example.org")["Location"] == reverse("account_email_verification_sent")
    client.post(path_of(link_in(mails_to("dora@example.org")[0])))
    assert sign_in(Client(), "dora@example.org")["Location"] == reverse("home")
    assert User.objects.get().name == "Dora"
    assert AuditEvent.objects.filter(action="user.sign-up").exists()


def test_only_addresses_of_the_named_domains_may_sign_up(client: Client, settings: Any, db: None):
    settings.SIGN_UP = SignUp(domains=("example.org",))
    for stranger in ("dora@example.com", "dora@sub.example.org", "dora@example.org.evil.example"):
        assert "Accounts are for addresses at" in sign_up(client, stranger).content.decode()
    assert not User.objects.exists()
    assert sign_up(client, "dora@EXAMPLE.org").status_code == 302


def test_signing_up_with_a_taken_address_reads_the_same_and_tells_its_owner(client: Client, alice: Any, settings: Any):
    settings.SIGN_UP = SignUp(open=True)
    fresh = sign_up(client, "dora@example.org")
    taken = sign_up(Client(), alice.email)
    assert (taken.status_code, taken["Location"]) == (fresh.status_code, fresh["Location"])
    assert "have an account already" in mails_to(alice.email)[0]
    assert User.objects.count() == 2
    assert sign_in(Client(), alice.email).status_code == 302


def test_people_made_by_others_need_no_such_mail(client: Client, db: None):
    user_create(email="Eve@example.org", password=PASSWORD)
    assert sign_in(client, "eve@example.org")["Location"] == reverse("home")


def test_people_from_before_addresses_were_kept_sign_in_as_ever(client: Client, alice: Any):
    EmailAddress.objects.all().delete()
    assert sign_in(client, alice.email)["Location"] == reverse("home")
    assert EmailAddress.objects.get(user=alice).verified
