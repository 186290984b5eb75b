"""Who may change whom, and what ends with a role: tokens, invitations, sessions, sockets."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from workspaces import live
from workspaces.errors import Refused
from workspaces.invitations import invitation_create
from workspaces.membership import member_remove, member_role_set, ownership_transfer, workspace_leave
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Role, User
from workspaces.selectors import members_of, role_in
from workspaces.tokens import token_authenticate, token_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def dave(workspace: Any) -> User:
    """An admin."""
    user = User.objects.create_user("dave@example.com", "four words in a row", name="Dave")
    Membership.objects.create(workspace=workspace, user=user, role=Role.ADMIN)
    return user


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whose sockets were told to look at their rights again, once the change was committed."""
    people: list[Any] = []
    monkeypatch.setattr(live, "_send", people.extend)
    return people


def role_of(workspace: Any, user: User) -> Role | None:
    return role_in(workspace.pk, user)


@pytest.mark.parametrize(
    ("actor", "target", "role", "refusal"),
    [
        ("bob", "carol", Role.EDITOR, "Only admins and owners"),
        ("carol", "carol", Role.EDITOR, "raises their own"),
        ("bob", "bob", Role.OWNER, "raises their own"),
        ("dave", "dave", Role.OWNER, "raises their own"),
        ("dave", "bob", Role.OWNER, "Only an owner makes"),
        ("dave", "alice", Role.VIEWER, "Only an owner changes"),
        ("alice", "alice", Role.ADMIN, "needs an owner"),
        ("mallory", "bob", Role.VIEWER, "no longer a member"),
        ("alice", "mallory", Role.VIEWER, "not a member"),
    ],
)
def test_it_refuses_what_the_rules_forbid(
    request: pytest.FixtureRequest, workspace: Any, actor: str, target: str, role: Role, refusal: str
):
    people = {name: request.getfixturevalue(name) for name in ("alice", "bob", "carol", "dave", "mallory")}
    before = dict(Membership.objects.values_list("user_id", "role"))
    with pytest.raises(Refused, match=refusal):
        member_role_set(workspace=workspace, user_id=people[target].pk, role=role, actor=people[actor])
    assert dict(Membership.objects.values_list("user_id", "role")) == before


@pytest.mark.parametrize(
    ("actor", "target", "role"),
    [
        ("dave", "carol", Role.ADMIN),
        ("dave", "bob", Role.VIEWER),
        ("dave", "dave", Role.VIEWER),
        ("alice", "bob", Role.OWNER),
        ("bob", "bob", Role.VIEWER),
    ],
)
def test_it_allows_what_the_rules_allow(
    request: pytest.FixtureRequest, workspace: Any, actor: str, target: str, role: Role
):
    people = {name: request.getfixturevalue(name) for name in ("alice", "bob", "carol", "dave")}
    member_role_set(workspace=workspace, user_id=people[target].pk, role=role, actor=people[actor])
    assert role_of(workspace, people[target]) == role
    event = AuditEvent.objects.get(action="member.role")
    assert (event.actor, event.object_id, event.detail["to"]) == (people[actor], str(people[target].pk), role.label)


def test_with_a_second_owner_the_first_may_go(workspace: Any, alice: Any, bob: Any):
    member_role_set(workspace=workspace, user_id=bob.pk, role=Role.OWNER, actor=alice)
    workspace_leave(workspace=workspace, actor=alice)
    assert role_of(workspace, alice) is None
    with pytest.raises(Refused, match="needs an owner"):
        workspace_leave(workspace=workspace, actor=bob)


def test_an_owner_whose_account_is_off_does_not_count(workspace: Any, alice: Any, bob: Any):
    member_role_set(workspace=workspace, user_id=bob.pk, role=Role.OWNER, actor=alice)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(Refused, match="needs an owner"):
        workspace_leave(workspace=workspace, actor=alice)


def test_removal_ends_tokens_invitations_sessions_and_sockets_in_one_step(
    workspace: Any, alice: Any, dave: User, project: Any, told: list[Any], django_capture_on_commit_callbacks: Any
):
    _token, key = token_create(user=dave, workspace=workspace, name="laptop")
    offer = invitation_create(workspace=workspace, email="new@example.com", role=Role.VIEWER, actor=dave)
    browser = Client()
    browser.force_login(dave)
    page = reverse("project-home", args=[project.pk])
    assert browser.get(page).status_code == 200
    with django_capture_on_commit_callbacks(execute=True):
        member_remove(workspace=workspace, user_id=dave.pk, actor=alice)
        assert ApiToken.objects.get().revoked_at is not None, "in the same transaction"
    assert told == [dave.pk]
    assert token_authenticate(key=key) is None
    assert browser.get(page).status_code == 404
    assert Invitation.objects.get(pk=offer.pk).revoked_at is not None
    Membership.objects.create(workspace=workspace, user=dave, role=Role.ADMIN)
    assert token_authenticate(key=key) is None, "coming back does not bring the token back"
    actions = set(AuditEvent.objects.filter(workspace=workspace).values_list("action", flat=True))
    assert {"member.remove", "token.revoke", "invitation.revoke"} <= actions


def test_a_smaller_role_revokes_only_the_tokens_above_it(
    workspace: Any, alice: Any, bob: Any, told: list[Any], django_capture_on_commit_callbacks: Any
):
    _strong, strong = token_create(user=bob, workspace=workspace, name="upload", role=Role.EDITOR)
    _weak, weak = token_create(user=bob, workspace=workspace, name="look", role=Role.VIEWER)
    with django_capture_on_commit_callbacks(execute=True):
        member_role_set(workspace=workspace, user_id=bob.pk, role=Role.VIEWER, actor=alice)
    assert token_authenticate(key=strong) is None
    assert token_authenticate(key=weak) == bob
    assert told == [bob.pk]


def test_a_greater_role_ends_nothing(workspace: Any, alice: Any, bob: Any):
    _token, key = token_create(user=bob, workspace=workspace, name="upload")
    member_role_set(workspace=workspace, user_id=bob.pk, role=Role.ADMIN, actor=alice)
    assert token_authenticate(key=key) == bob


def test_an_admin_made_editor_takes_back_every_open_invitation(workspace: Any, alice: Any, dave: User):
    offer = invitation_create(workspace=workspace, email="new@example.com", role=Role.VIEWER, actor=dave)
    member_role_set(workspace=workspace, user_id=dave.pk, role=Role.EDITOR, actor=alice)
    assert Invitation.objects.get(pk=offer.pk).revoked_at is not None


def test_nobody_removes_themselves_or_an_owner_above_them(workspace: Any, alice: Any, dave: User, bob: Any, carol: Any):
    for actor, target, refusal in (
        (dave, dave, "leave the workspace"),
        (dave, alice, "Only an owner"),
        (bob, carol, "Only admins"),
    ):
        with pytest.raises(Refused, match=refusal):
            member_remove(workspace=workspace, user_id=target.pk, actor=actor)
    assert Membership.objects.filter(workspace=workspace).count() == 4


def test_handing_over_takes_the_name_and_an_owner(workspace: Any, alice: Any, bob: Any, dave: User):
    def hand_over(actor: User, to: User, name: str = workspace.name) -> None:
        ownership_transfer(workspace=workspace, user_id=to.pk, typed_name=name, actor=actor)

    for actor, to, name, refusal in (
        (dave, bob, workspace.name, "Only an owner"),
        (alice, bob, "acme", "not the name"),
        (alice, alice, workspace.name, "already"),
    ):
        with pytest.raises(Refused, match=refusal):
            hand_over(actor, to, name)
    _token, key = token_create(user=alice, workspace=workspace, name="laptop", role=Role.OWNER)
    hand_over(alice, bob, f"  {workspace.name} ")
    assert (role_of(workspace, alice), role_of(workspace, bob)) == (Role.ADMIN, Role.OWNER)
    assert token_authenticate(key=key) is None
    assert AuditEvent.objects.filter(action="workspace.transfer", actor=alice, object_id=str(bob.pk)).exists()


def test_the_list_costs_the_same_for_two_and_for_many(
    workspace: Any, alice: Any, bob: Any, django_assert_num_queries: Any
):
    for number in range(12):
        user = User.objects.create_user(f"p{number}@example.com", "x", name=f"P {number}")
        Membership.objects.create(workspace=workspace, user=user, role=Role.VIEWER)
    token_create(user=bob, workspace=workspace, name="laptop")
    with django_assert_num_queries(2):
        lines = members_of(workspace)
    assert [line.user for line in lines[:2]] == [alice, bob]
    assert lines[1].last_active is not None
    assert lines[-1].last_active is None


def test_the_page_offers_only_what_one_may_do(client: Client, workspace: Any, alice: Any, dave: User, carol: Any):
    url = reverse("members", args=[workspace.pk])
    client.force_login(carol)
    page = client.get(url).content.decode()
    assert "alice@example.com" in page
    assert "Send invitation" not in page
    assert "remove-" not in page
    client.force_login(dave)
    page = client.get(url).content.decode()
    assert f"remove-{carol.pk}" in page
    assert f"remove-{alice.pk}" not in page
    assert 'value="40"' not in page, "an admin cannot make owners"
    client.force_login(alice)
    assert 'value="40"' in client.get(url).content.decode()


def test_the_page_says_why_it_refuses(client: Client, workspace: Any, alice: Any):
    client.force_login(alice)
    url = reverse("member-role", args=[workspace.pk, alice.pk])
    answer = client.post(url, {"role": "10"}, follow=True)
    assert "needs an owner" in answer.content.decode()
    assert role_of(workspace, alice) == Role.OWNER
    answer = client.post(reverse("workspace-leave", args=[workspace.pk]), follow=True)
    assert "needs an owner" in answer.content.decode()


def test_the_panel_lists_every_member_with_the_role(
    client: Client, project: Any, workspace: Any, bob: Any, mallory: Any
):
    client.force_login(bob)
    page = client.get(reverse("project-home", args=[project.pk])).content.decode()
    url = reverse("who-can-see", args=[workspace.pk])
    assert f'hx-get="{url}"' in page
    panel = client.get(url).content.decode()
    assert "Alice" in panel
    assert "editor" in panel
    client.force_login(mallory)
    assert client.get(url).status_code == 404
