"""The mails of the installation, as its operator sees them."""

from __future__ import annotations

import pytest
from django.core import mail as outbox
from django.test import Client

from delivery.models import Message
from delivery.services import message_enqueue, send_due_messages
from workspaces.models import User
from workspaces.services import owner_create

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script> http://example.org/?a=1&b=2"


@pytest.fixture
def operator() -> Client:
    user, _ = owner_create(email="first@example.org", password="four words in a row")
    client = Client()
    client.force_login(user)
    return client


def put(key: str = "a", **more: object) -> Message:
    message_enqueue(key=key, recipient=f"{key}@example.org", subject=f"About {key}", text=HOSTILE, **more)
    return Message.objects.get(key=key)


def test_only_the_first_person_is_made_staff(operator):
    owner_create(email="second@example.org", password="four words in a row")
    assert list(User.objects.filter(is_staff=True).values_list("email", flat=True)) == ["first@example.org"]


def test_others_find_no_such_page_and_no_way_to_it(operator, client, alice):
    client.force_login(alice)
    message = put()
    assert client.get("/staff/mails/").status_code == 404
    assert client.get(f"/staff/mails/{message.pk}/").status_code == 404
    assert "/staff/mails/" not in client.get("/settings/").content.decode()
    assert "/staff/mails/" in operator.get("/settings/").content.decode()


def test_an_empty_outbox_says_so(operator):
    assert "No mail has been written yet" in operator.get("/staff/mails/").content.decode()
    assert "No mail is in this state" in operator.get("/staff/mails/?state=failed").content.decode()


def test_the_list_shows_states_and_errors_and_filters(operator):
    put("waits")
    put("fails")
    Message.objects.filter(key="fails").update(state="failed", tries=12, error="no such mailbox")
    page = operator.get("/staff/mails/").content.decode()
    assert "About waits" in page and "About fails" in page and "no such mailbox" in page
    page = operator.get("/staff/mails/?state=failed").content.decode()
    assert "About fails" in page and "About waits" not in page
    assert operator.get("/staff/mails/?state=nonsense&page=99").status_code == 200


def test_a_page_is_a_fixed_number_of_queries(operator, django_assert_max_num_queries):
    for number in range(120):
        put(f"m{number}")
    with django_assert_max_num_queries(8):
        page = operator.get("/staff/mails/?page=2").content.decode()
    assert page.count("/staff/mails/") > 50 and "Older" in page and "Newer" in page


def test_the_text_is_shown_and_hostile_text_stays_text(operator):
    page = operator.get(f"/staff/mails/{put().pk}/").content.decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert 'href="http://example.org/?a=1&amp;b=2"' in page


def test_a_private_mail_is_sealed_while_it_waits(operator):
    page = operator.get(f"/staff/mails/{put(private=True).pk}/").content.decode()
    assert "sealed until it leaves" in page and "alert(1)" not in page


def test_a_mail_that_became_a_file_is_read_from_it(operator, settings, tmp_path):
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    first, second = put("first", private=True), put("second", private=True)
    assert send_due_messages() == 2
    (tmp_path / "20200101-000000-1.log").write_text(f"Message-ID: <{first.pk}@tuneyard>\n\nold")
    for message in (first, second):
        page = operator.get(f"/staff/mails/{message.pk}/").content.decode()
        assert "alert(1)" in page and f"{message.key}@example.org" in page
    assert str(tmp_path) in operator.get("/staff/mails/").content.decode()
    for path in tmp_path.iterdir():
        path.unlink()
    assert "erased from the database" in operator.get(f"/staff/mails/{first.pk}/").content.decode()


def test_a_private_mail_given_to_a_server_is_gone_here(operator):
    message = put(private=True)
    assert send_due_messages() == 1 and HOSTILE in outbox.outbox[0].body
    assert "erased from the database" in operator.get(f"/staff/mails/{message.pk}/").content.decode()
