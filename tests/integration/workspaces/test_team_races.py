"""Two at once: one invitation taken twice, two owners demoting each other, a token made while its person is removed."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from catalog.models import DatasetVersion
from catalog.services import dataset_upload
from workspaces.errors import Refused
from workspaces.invitations import invitation_accept_new, invitation_create
from workspaces.membership import member_role_set, workspace_leave
from workspaces.models import Invitation, Membership, Project, Role, User, Workspace

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gave or raised, all started at the same moment in threads of their own."""
    results: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(place: int, call: Callable[[], Any]) -> None:
        try:
            start.wait(10)
            results[place] = call()
        except Exception as error:
            results[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a deadlock"
    return results


def test_an_invitation_is_taken_once(workspace: Any, alice: Any):
    for number in range(5):
        invitation = invitation_create(
            workspace=workspace, email=f"n{number}@example.com", role=Role.EDITOR, actor=alice
        )

        def take(invitation: Invitation = invitation) -> User:
            return invitation_accept_new(invitation=invitation, name="Neo", password="five words in one row")

        results = at_once(take, take, take)
        assert sum(isinstance(result, User) for result in results) == 1, results
        assert all(isinstance(result, User | Refused) for result in results), results
        assert User.objects.filter(email=f"n{number}@example.com").count() == 1
    assert Membership.objects.filter(workspace=workspace).count() == 6


def test_two_owners_who_demote_each_other_leave_one(workspace: Any, alice: Any, bob: Any):
    for _ in range(5):
        Membership.objects.filter(user__in=[alice, bob]).update(role=Role.OWNER)
        results = at_once(
            lambda: member_role_set(workspace=workspace, user_id=bob.pk, role=Role.VIEWER, actor=alice),
            lambda: member_role_set(workspace=workspace, user_id=alice.pk, role=Role.VIEWER, actor=bob),
        )
        assert sum(isinstance(result, Refused) for result in results) == 1, results
        assert Membership.objects.filter(workspace=workspace, role=Role.OWNER).count() == 1


def test_two_owners_who_leave_together_leave_one(workspace: Any, alice: Any, bob: Any):
    Membership.objects.filter(user__in=[alice, bob]).update(role=Role.OWNER)
    results = at_once(
        lambda: workspace_leave(workspace=workspace, actor=alice),
        lambda: workspace_leave(workspace=workspace, actor=bob),
    )
    assert sum(isinstance(result, Refused) for result in results) == 1, results
    assert Membership.objects.filter(workspace=workspace, role=Role.OWNER).count() == 1


def test_two_admins_who_invite_one_address_send_one_invitation(workspace: Any, alice: Any, bob: Any):
    Membership.objects.filter(user=bob).update(role=Role.ADMIN)

    def invite(actor: User) -> Invitation:
        return invitation_create(workspace=workspace, email="new@example.com", role=Role.VIEWER, actor=actor)

    results = at_once(lambda: invite(alice), lambda: invite(bob))
    assert sum(isinstance(result, Refused) for result in results) == 1, results
    assert Invitation.objects.filter(expires_at__gt=timezone.now() + timedelta(days=6)).count() == 1


def test_two_uploads_do_not_share_the_last_room(workspace: Any, alice: Any):
    project = Project.objects.create(workspace=workspace, name="Sums", created_by=alice)
    rows = [b'{"question": "%d + 1?", "answer": "2"}\n' % number for number in range(2)]
    Workspace.objects.update(quota_bytes=len(rows[0]) + 5)

    def upload(number: int) -> DatasetVersion:
        return dataset_upload(
            project=project, name=f"D{number}", file=io.BytesIO(rows[number]), file_name="r.jsonl", actor=alice
        )

    results = at_once(lambda: upload(0), lambda: upload(1))
    assert sum(isinstance(result, Refused) for result in results) == 1, results
    assert DatasetVersion.objects.count() == 1
