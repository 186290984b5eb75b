"""Turning an account off, taking one's data along, and deleting the account for good."""

from __future__ import annotations

import json
from typing import Any

import factories
import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from delivery.models import Message
from delivery.services import message_enqueue
from jobs.models import Job, TimelineEntry
from jobs.services import job_cancel
from workspaces import live, people
from workspaces.errors import Refused
from workspaces.invitations import invitation_create
from workspaces.masking import MASKED
from workspaces.membership import member_role_set
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Role, User, Workspace
from workspaces.people import FORMER, person_activate, person_deactivate, person_delete
from workspaces.tokens import token_authenticate, token_create
from workspaces.vault import secret_set

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(live, "_send", found.extend)
    return found


def test_an_account_that_is_off_reaches_nothing(
    workspace: Any, project: Any, bob: Any, told: list[Any], django_capture_on_commit_callbacks: Any
):
    _token, key = token_create(user=bob, workspace=workspace, name="laptop")
    browser = Client()
    browser.force_login(bob)
    with django_capture_on_commit_callbacks(execute=True):
        person_deactivate(user=bob, actor=None)
    assert told == [bob.pk]
    assert token_authenticate(key=key) is None
    assert browser.get(reverse("project-home", args=[project.pk])).status_code == 302, "to the sign-in page"
    person_activate(user=bob, actor=None)
    assert token_authenticate(key=key) is None, "old tokens stay revoked"
    actions = AuditEvent.objects.filter(object_id=str(bob.pk)).order_by("id").values_list("action", flat=True)
    assert list(actions) == ["user.deactivate", "user.deactivate", "user.activate"]


def test_the_command_turns_an_account_off_and_on(bob: Any):
    call_command("person", "BOB@example.com", "off")
    bob.refresh_from_db()
    assert not bob.is_active
    call_command("person", bob.email, "on")
    bob.refresh_from_db()
    assert bob.is_active
    with pytest.raises(CommandError, match="Nobody"):
        call_command("person", "nobody@example.com", "off")


def test_the_last_owner_of_a_team_with_others_stays(client: Client, workspace: Any, alice: Any, bob: Any):
    with pytest.raises(Refused, match="last owner of “Acme”"):
        person_delete(user=alice, typed_email=alice.email)
    client.force_login(alice)
    page = client.get(reverse("account")).content.decode()
    assert reverse("workspace-transfer", args=[workspace.pk]) in page
    assert "Delete account" not in page
    client.post(reverse("account"), {"typed_email": alice.email})
    assert User.objects.filter(pk=alice.pk).exists()


def test_it_takes_the_right_address(client: Client, bob: Any):
    client.force_login(bob)
    page = client.post(reverse("account"), {"typed_email": "alice@example.com"}).content.decode()
    assert "not the address" in page
    assert User.objects.filter(pk=bob.pk).exists()


def test_name_and_address_are_gone_and_the_work_stays(
    client: Client, workspace: Any, project: Any, alice: Any, bob: Any
):
    """Also where rows keep them as text: the log, timelines, mails, invitations, sessions."""
    User.objects.filter(pk=bob.pk).update(name="Robert Marl", email="robert.marl@example.org")
    bob.refresh_from_db()
    job = factories.job(project, bob, name="sums")
    job_cancel(job=job, actor=bob)
    token_create(user=bob, workspace=workspace, name="laptop")
    member_role_set(workspace=workspace, user_id=bob.pk, role=Role.ADMIN, actor=alice)
    invitation_create(workspace=workspace, email="x@example.com", role=Role.VIEWER, actor=bob)
    other = Workspace.objects.create(name="Other", slug="other")
    Membership.objects.create(workspace=other, user=alice, role=Role.OWNER)
    invitation_create(workspace=other, email=bob.email.upper(), role=Role.VIEWER, actor=alice)
    message_enqueue(key="job:x", recipient=bob.email, subject="s", text="t")
    client.force_login(bob)
    answer = client.post(reverse("account"), {"typed_email": "ROBERT.marl@example.org "})
    assert answer["Location"] == reverse("sign-in")
    assert not User.objects.filter(pk=bob.pk).exists()
    assert Job.objects.get(pk=job.pk).submitted_by is None
    assert set(TimelineEntry.objects.filter(job=job).values_list("actor_label", flat=True)) == {FORMER}
    assert not ApiToken.objects.exists()
    assert list(Invitation.objects.values_list("email", flat=True)) == ["x@example.com"]
    assert not Message.objects.filter(recipient__iexact="robert.marl@example.org").exists()
    assert not Session.objects.exists()
    log = repr(list(AuditEvent.objects.values()))
    assert "marl" not in log.lower()
    actions = set(AuditEvent.objects.filter(actor_label=FORMER).values_list("action", flat=True))
    assert {"job.submit", "job.cancel", "member.leave", "user.delete"} <= actions


def test_a_team_of_one_goes_with_its_only_member(client: Client, alice: Any, workspace: Any):
    assert people.alone_in(alice) == [workspace]
    client.force_login(alice)
    assert "They are deleted too" in client.get(reverse("account")).content.decode()
    person_delete(user=alice, typed_email=alice.email)
    assert Workspace.objects.get(pk=workspace.pk).closed_at is not None


def test_a_second_owner_is_enough(alice: Any, bob: Any, workspace: Any):
    member_role_set(workspace=workspace, user_id=bob.pk, role=Role.OWNER, actor=alice)
    person_delete(user=alice, typed_email=alice.email)
    assert Workspace.objects.get(pk=workspace.pk).closed_at is None


def test_the_export_is_one_json_file_of_ones_own(client: Client, workspace: Any, project: Any, alice: Any, bob: Any):
    factories.job(project, bob, name="mine")
    factories.job(project, alice, name="hers")
    factories.job(project, bob, name="with hf_Zk3vQ9mSx7TrW2pL")
    secret_set(workspace=workspace, name="HF_TOKEN", value="hf_Zk3vQ9mSx7TrW2pL", actor=alice)
    _token, key = token_create(user=bob, workspace=workspace, name="laptop")
    client.force_login(bob)
    answer = client.post(reverse("account-export"))
    assert "attachment" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode()
    data = json.loads(text)
    assert data["account"][0]["email"] == bob.email
    assert sorted(row["name"] for row in data["jobs/jobs"]) == ["mine", f"with {MASKED}"]
    assert "hf_Zk3" not in text
    assert [row["role"] for row in data["memberships"]] == [Role.EDITOR]
    assert data["tokens"][0]["name"] == "laptop"
    assert key not in text
    assert "password" not in data["account"][0]
    assert AuditEvent.objects.filter(action="user.export", actor=bob).count() == 1
