"""Scopes of tokens: asked for at the door of the API, and once more where objects are fetched."""

from __future__ import annotations

import importlib
from typing import Any

import factories
import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from workspaces import access
from workspaces.errors import Refused
from workspaces.models import ApiToken, Project, Role
from workspaces.scopes import Scope
from workspaces.tokens import token_authenticate, token_create

pytestmark = pytest.mark.django_db


def caller(user: Any, workspace: Any, *scopes: str, role: Role = Role.OWNER) -> Any:
    _token, key = token_create(user=user, workspace=workspace, name="t", role=role, scopes=scopes)
    found = token_authenticate(key=key)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ((), {Role.VIEWER}),
        (("read",), {Role.VIEWER}),
        (("write",), {Role.VIEWER, Role.EDITOR}),
        (("train",), {Role.VIEWER, Role.EDITOR}),
        (("manage",), {Role.VIEWER, Role.ADMIN, Role.OWNER}),
        (("write", "train", "manage"), set(Role)),
    ],
)
def test_the_door_to_objects_asks_for_a_scope_that_fits_the_role(
    alice: Any, workspace: Any, project: Any, scopes: tuple[str, ...], allowed: set[Role]
):
    user = caller(alice, workspace, *scopes)
    found = {role for role in Role if access.visible(Project.objects.all(), user, role).exists()}
    assert found == allowed


def test_read_is_in_every_token_and_all_is_the_default(alice: Any, workspace: Any):
    token, _key = token_create(user=alice, workspace=workspace, name="t", scopes=["train"])
    assert token.scopes == ["read", "train"]
    for role, scopes in (
        (Role.VIEWER, ["read"]),
        (Role.EDITOR, ["read", "write", "train"]),
        (Role.ADMIN, ["read", "write", "train", "manage"]),
    ):
        assert token_create(user=alice, workspace=workspace, name="t", role=role)[0].scopes == scopes


def test_it_refuses_scopes_that_do_not_exist_or_that_the_role_cannot_fill(alice: Any, workspace: Any):
    for role, scopes, refusal in (
        (Role.OWNER, ["admin"], "no scope 'admin'"),
        (Role.EDITOR, ["manage"], "takes the role admin"),
        (Role.VIEWER, ["write"], "takes the role editor"),
    ):
        with pytest.raises(Refused, match=refusal):
            token_create(user=alice, workspace=workspace, name="t", role=role, scopes=scopes)
    assert not ApiToken.objects.exists()


def test_tokens_from_before_keep_what_they_could(alice: Any, workspace: Any):
    for role in Role:
        token, _key = token_create(user=alice, workspace=workspace, name="t", role=role)
        ApiToken.objects.filter(pk=token.pk).update(scopes=[])
    importlib.import_module("workspaces.migrations.0002_teams").give_scopes(apps, None)
    found = dict(ApiToken.objects.values_list("role", "scopes"))
    assert found[Role.VIEWER] == [Scope.READ]
    assert found[Role.EDITOR] == [Scope.READ, Scope.WRITE, Scope.TRAIN]
    assert found[Role.ADMIN] == found[Role.OWNER] == list(Scope)


def test_the_form_makes_a_token_with_the_chosen_scopes(client: Client, bob: Any, workspace: Any):
    client.force_login(bob)
    page = client.get(reverse("tokens")).content.decode()
    assert 'value="train"' in page
    assert 'value="manage"' not in page, "an editor cannot fill it"
    form = {"name": "t", "workspace": workspace.pk, "role": Role.EDITOR.value, "expires": "30", "scopes": ["train"]}
    client.post(reverse("tokens"), form)
    assert ApiToken.objects.get().scopes == ["read", "train"]
    client.post(reverse("tokens"), form | {"scopes": []})
    assert ApiToken.objects.order_by("-created_at")[0].scopes == ["read"]


def test_an_admin_sees_and_revokes_the_teams_tokens_but_never_a_key(
    client: Client, alice: Any, bob: Any, workspace: Any, mallory: Any
):
    token, key = token_create(user=bob, workspace=workspace, name="Bob’s laptop")
    foreign, foreign_key = token_create(user=mallory, workspace=mallory.workspaces.get(), name="foreign")
    page_url = reverse("team-tokens", args=[workspace.pk])
    revoke = reverse("team-token-revoke", args=[workspace.pk, token.pk])
    client.force_login(bob)
    assert client.get(page_url).status_code == 403
    assert client.post(revoke).status_code == 403
    client.force_login(alice)
    page = client.get(page_url).content.decode()
    assert "Bob’s laptop" in page
    assert key not in page
    assert token.digest not in page
    assert "foreign" not in page
    assert client.post(reverse("team-token-revoke", args=[workspace.pk, foreign.pk])).status_code == 404
    assert token_authenticate(key=foreign_key) == mallory
    assert client.post(revoke).status_code == 302
    assert token_authenticate(key=key) is None


def test_a_job_started_by_a_token_that_may_only_train(alice: Any, workspace: Any, project: Any):
    user = caller(alice, workspace, "train")
    job = factories.job(project, user)
    assert access.get(type(job).objects.all(), job.pk, user, Role.EDITOR) == job
