"""Making people, teams and projects; each leaves a line in the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from workspaces import services
from workspaces.errors import Refused
from workspaces.models import AuditEvent, Membership, Project, Role, User, Workspace
from workspaces.selectors import projects_of, role_in, workspaces_of

pytestmark = pytest.mark.django_db
PASSWORD = "five words in one row"


def test_the_first_person_gets_a_team_and_a_project():
    user, workspace = services.owner_create(email="ada@example.org", password=PASSWORD, workspace_name="Analysts")
    assert Membership.objects.get(user=user, workspace=workspace).role == Role.OWNER
    assert [project.name for project in projects_of(user)] == ["First project"]
    assert user.check_password(PASSWORD)
    actions = AuditEvent.objects.values_list("action", flat=True).order_by("id")
    assert list(actions) == ["user.create", "workspace.create", "project.create"]


@pytest.mark.parametrize(
    ("email", "password", "field"),
    [
        ("no address", PASSWORD, "email"),
        ("ada@example.org", "short", "password"),
        ("ada@example.org", "password123", "password"),
        ("ada.lovelace@example.org", "ada.lovelace", "password"),
    ],
)
def test_it_refuses_bad_addresses_and_weak_passwords(email: str, password: str, field: str):
    with pytest.raises(Refused) as refused:
        services.owner_create(email=email, password=password)
    assert refused.value.field == field
    assert not User.objects.exists()
    assert not Workspace.objects.exists()


def test_an_address_is_used_once_whatever_its_case():
    services.owner_create(email="ada@example.org", password=PASSWORD)
    with pytest.raises(Refused, match="already a person"):
        services.owner_create(email="ADA@example.org", password=PASSWORD)


def test_two_teams_of_one_name_have_different_slugs(alice: Any):
    first = services.workspace_create(name="数据", owner=alice)
    second = services.workspace_create(name="数据", owner=alice)
    assert first.slug != second.slug


def test_a_project_name_is_free_only_once_in_a_workspace(alice: Any, workspace: Any, project: Any, mallory: Any):
    with pytest.raises(Refused, match="already has a project") as refused:
        services.project_create(workspace=workspace, name="sums", actor=alice)
    assert refused.value.field == "name"
    other = mallory.workspaces.get()
    services.project_create(workspace=other, name="Sums", actor=mallory)
    for bad in ("", "   ", "x" * 101):
        with pytest.raises(Refused):
            services.project_create(workspace=workspace, name=bad, actor=alice)


def test_people_see_their_own_teams_and_projects_only(alice: Any, mallory: Any, workspace: Any, project: Any):
    assert list(workspaces_of(alice)) == [workspace]
    assert list(projects_of(alice)) == [project]
    assert project not in projects_of(mallory)
    assert role_in(workspace.pk, mallory) is None
    assert role_in(workspace.pk, alice) == Role.OWNER


def test_a_member_is_added_once(alice: Any, mallory: Any, workspace: Any):
    services.member_add(workspace=workspace, user=mallory, role=Role.VIEWER, actor=alice)
    with pytest.raises(Refused, match="already a member"):
        services.member_add(workspace=workspace, user=mallory, role=Role.EDITOR, actor=alice)
    assert role_in(workspace.pk, mallory) == Role.VIEWER


def test_the_command_creates_an_owner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("TUNEYARD_PASSWORD", PASSWORD)
    call_command("create_owner", email="ada@example.org", workspace="Analysts")
    assert Project.objects.filter(workspace__name="Analysts").exists()
    with pytest.raises(CommandError, match="already a person"):
        call_command("create_owner", email="ada@example.org")
