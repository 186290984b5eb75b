"""Invitations: by mail, for one address, once, for a while; and nobody learns who has an account."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from delivery.models import Message
from delivery.services import send_due_messages
from workspaces import invitations
from workspaces.errors import Refused
from workspaces.invitations import invitation_create, invitation_of_key, invitation_resend, invitation_revoke
from workspaces.models import AuditEvent, Invitation, Membership, RateBucket, Role, User

pytestmark = pytest.mark.django_db
NEW = "new@example.com"
PASSWORD = "five words in one row"


@pytest.fixture(autouse=True)
def mailbox(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


def invite(
    workspace: Any, actor: Any, email: str = NEW, role: Role = Role.EDITOR, **more: Any
) -> tuple[Invitation, str]:
    """The invitation, and the key in the link of its mail."""
    invitation = invitation_create(workspace=workspace, email=email, role=role, actor=actor, **more)
    return invitation, key_in_mail()


def key_in_mail() -> str:
    send_due_messages()
    match = re.search(r"/invitations/([\w-]+)/", str(mail.outbox[-1].body))
    assert match is not None
    return match[1]


def page_of(key: str) -> str:
    return reverse("invitation", args=[key])


def test_the_key_is_in_the_mail_and_nowhere_else(workspace: Any, alice: Any):
    invitation_create(workspace=workspace, email=NEW, role=Role.EDITOR, actor=alice)
    waiting = Message.objects.get()
    assert "invitations" not in waiting.text + waiting.html, "sealed while it waits"
    key = key_in_mail()
    rows = [Invitation.objects.values().get(), Message.objects.values().get(), *AuditEvent.objects.values()]
    assert key not in repr(rows)
    assert Message.objects.get().text == "", "erased once it has left"
    assert mail.outbox[0].to == [NEW]
    assert workspace.name in mail.outbox[0].body


@pytest.mark.parametrize(
    ("actor", "email", "role", "refusal"),
    [
        ("bob", NEW, Role.VIEWER, "Only admins"),
        ("carol", NEW, Role.VIEWER, "Only admins"),
        ("mallory", NEW, Role.VIEWER, "Only admins"),
        ("admin", NEW, Role.OWNER, "Only an owner"),
        ("alice", "no address", Role.VIEWER, "not an e-mail address"),
        ("alice", "a@b.example\nBcc: x@y.example", Role.VIEWER, "not an e-mail address"),
        ("alice", "BOB@example.com", Role.VIEWER, "already a member"),
    ],
)
def test_it_refuses(
    request: pytest.FixtureRequest, workspace: Any, bob: Any, actor: str, email: str, role: Role, refusal: str
):
    if actor == "admin":
        person = User.objects.create_user("dave@example.com", "x")
        Membership.objects.create(workspace=workspace, user=person, role=Role.ADMIN)
    else:
        person = request.getfixturevalue(actor)
    with pytest.raises(Refused, match=refusal):
        invitation_create(workspace=workspace, email=email, role=role, actor=person)
    assert not Invitation.objects.exists()
    assert not Message.objects.exists()


def test_a_stranger_with_an_account_is_invited_like_one_without(workspace: Any, alice: Any, mallory: Any):
    invitation_create(workspace=workspace, email=mallory.email, role=Role.EDITOR, actor=alice)
    invitation_create(workspace=workspace, email=NEW, role=Role.EDITOR, actor=alice)
    first, second = Message.objects.order_by("created_at")
    assert first.subject == second.subject


def test_an_open_invitation_is_not_doubled_but_a_run_out_one_is_replaced(workspace: Any, alice: Any):
    first, key = invite(workspace, alice)
    with pytest.raises(Refused, match="already invited"):
        invitation_create(workspace=workspace, email=NEW.upper(), role=Role.EDITOR, actor=alice)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert invitation_of_key(key) is None
    invite(workspace, alice)
    first.refresh_from_db()
    assert first.revoked_at is not None


def test_sending_again_takes_a_minute_and_makes_the_old_link_void(workspace: Any, alice: Any):
    invitation, old = invite(workspace, alice, days=30)
    with pytest.raises(Refused, match="less than a minute"):
        invitation_resend(invitation=invitation, actor=alice)
    Invitation.objects.update(sent_at=timezone.now() - timedelta(minutes=2))
    again = invitation_resend(invitation=invitation, actor=alice)
    assert again.expires_at - again.sent_at == timedelta(days=30)
    new = key_in_mail()
    assert invitation_of_key(old) is None
    assert invitation_of_key(new) == invitation


def test_too_many_invitations_at_once_are_refused(workspace: Any, alice: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(invitations, "BY_WORKSPACE", invitations.limits.Limit("invite-test", 2, 3600))
    for number in range(2):
        invitation_create(workspace=workspace, email=f"p{number}@example.com", role=Role.VIEWER, actor=alice)
    with pytest.raises(Refused, match="Many invitations"):
        invitation_create(workspace=workspace, email="p3@example.com", role=Role.VIEWER, actor=alice)
    assert Message.objects.count() == 2


def test_a_new_person_makes_their_account_and_is_in(client: Client, workspace: Any, alice: Any, project: Any):
    _invitation, key = invite(workspace, alice)
    page = client.get(page_of(key)).content.decode()
    assert NEW in page
    assert "Create account and join" in page
    answer = client.post(page_of(key), {"name": "Neo <b>", "password": PASSWORD})
    assert answer["Location"] == reverse("project-home", args=[project.pk])
    user = User.objects.get(email=NEW)
    assert user.check_password(PASSWORD)
    assert Membership.objects.get(user=user).role == Role.EDITOR
    assert client.get(answer["Location"]).status_code == 200, "signed in"
    assert {"invitation.accept", "member.add", "user.create"} <= set(
        AuditEvent.objects.values_list("action", flat=True)
    )
    assert Client().get(page_of(key)).status_code == 410, "once only"


def test_a_weak_password_is_refused_and_nothing_is_made(client: Client, workspace: Any, alice: Any):
    _invitation, key = invite(workspace, alice)
    page = client.post(page_of(key), {"name": "Neo", "password": "password1234"})
    assert page.status_code == 200
    assert "too common" in page.content.decode()
    assert not User.objects.filter(email=NEW).exists()
    assert invitation_of_key(key) is not None


def test_a_person_with_an_account_signs_in_and_joins(client: Client, workspace: Any, alice: Any, mallory: Any):
    _invitation, key = invite(workspace, alice, email=mallory.email.upper())
    page = client.get(page_of(key)).content.decode()
    assert f"{reverse('sign-in')}?next={page_of(key)}" in page
    assert 'name="password"' not in page
    refused = client.post(page_of(key), {"name": "", "password": PASSWORD}).content.decode()
    assert "already a person" in refused, "no second account for the address"
    client.force_login(mallory)
    assert client.post(page_of(key)).status_code == 302
    assert Membership.objects.get(user=mallory, workspace=workspace).role == Role.EDITOR


def test_it_is_bound_to_the_address(client: Client, workspace: Any, alice: Any, mallory: Any):
    _invitation, key = invite(workspace, alice)
    client.force_login(mallory)
    page = client.get(page_of(key)).content.decode()
    assert "You are signed in as" in page
    assert mallory.email in page
    assert "Join workspace" not in page
    client.post(page_of(key))
    assert not Membership.objects.filter(user=mallory, workspace=workspace).exists()
    assert invitation_of_key(key) is not None


def test_every_dead_link_gets_one_and_the_same_answer(client: Client, workspace: Any, alice: Any):
    revoked, key_revoked = invite(workspace, alice, "a@example.com")
    invitation_revoke(invitation=revoked, actor=alice)
    invitation_revoke(invitation=revoked, actor=alice)
    assert AuditEvent.objects.filter(action="invitation.revoke").count() == 1
    late, key_late = invite(workspace, alice, "b@example.com")
    Invitation.objects.filter(pk=late.pk).update(expires_at=timezone.now())
    answers = [client.get(page_of(key)) for key in (key_revoked, key_late, "nonsense", "ü" * 40)]
    assert {answer.status_code for answer in answers} == {410}
    assert len({answer.content.decode().partition("<main")[2] for answer in answers}) == 1
    for key in (key_revoked, key_late):
        assert client.post(page_of(key), {"name": "x", "password": PASSWORD}).status_code == 410
    assert not User.objects.filter(email__in=["a@example.com", "b@example.com"]).exists()


def test_answering_is_limited_by_where_it_comes_from(client: Client, workspace: Any, alice: Any):
    _invitation, key = invite(workspace, alice)
    for _ in range(invitations.ANSWER_BY_ADDRESS.burst):
        assert client.post(page_of(key), {"password": "short"}).status_code == 200
    assert client.post(page_of(key), {"password": PASSWORD}).status_code == 429
    RateBucket.objects.all().delete()
    assert client.post(page_of(key), {"password": PASSWORD}).status_code == 302


def test_the_key_does_not_leave_with_a_referrer(client: Client, workspace: Any, alice: Any):
    _invitation, key = invite(workspace, alice)
    answer = client.get(page_of(key))
    assert answer["Referrer-Policy"] == "strict-origin"
    assert "no-cache" in answer["Cache-Control"]


def test_the_page_lists_open_invitations_and_acts_on_them(client: Client, workspace: Any, alice: Any, mallory: Any):
    client.force_login(alice)
    url = reverse("members", args=[workspace.pk])
    assert client.post(url, {"email": NEW, "role": "20", "days": "7"}).status_code == 302
    invitation = Invitation.objects.get()
    assert timedelta(days=6) < invitation.expires_at - timezone.now() <= timedelta(days=7)
    assert NEW in client.get(url).content.decode()
    again = client.post(url, {"email": NEW, "role": "20", "days": "7"}).content.decode()
    assert "already invited" in again
    revoke = reverse("invitation-revoke", args=[workspace.pk, invitation.pk])
    assert Client().post(revoke).status_code == 302
    stranger = Client()
    stranger.force_login(mallory)
    assert stranger.post(revoke).status_code == 404
    foreign = reverse("invitation-revoke", args=[mallory.workspaces.get().pk, invitation.pk])
    assert stranger.post(foreign).status_code == 404, "not through a workspace of one's own either"
    assert "no longer works" in client.post(revoke, follow=True).content.decode()
    assert NEW not in client.get(url).content.decode()
