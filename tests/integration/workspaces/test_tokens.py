"""API tokens: shown once, kept as a hash, bounded by role, expiry and membership; and their page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from workspaces import access
from workspaces.errors import Refused
from workspaces.models import ApiToken, AuditEvent, Membership, Project, Role
from workspaces.tokens import token_authenticate, token_create, token_revoke

pytestmark = pytest.mark.django_db


def test_a_key_is_kept_only_as_a_hash(alice: Any, workspace: Any):
    token, key = token_create(user=alice, workspace=workspace, name="laptop")
    assert key.startswith("tml-")
    row = ApiToken.objects.values().get(pk=token.pk)
    assert key not in [str(value) for value in row.values()]
    assert token_authenticate(key=key) == alice
    assert AuditEvent.objects.get(action="token.create").object_label.startswith(token.prefix)


def test_void_keys_authenticate_nobody(alice: Any, bob: Any, workspace: Any):
    _token, key = token_create(user=bob, workspace=workspace, name="laptop")
    assert token_authenticate(key=key + "x") is None
    assert token_authenticate(key=key.removeprefix("tml-")) is None
    assert token_authenticate(key="") is None
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert token_authenticate(key=key) is None
    ApiToken.objects.update(expires_at=None)
    assert token_authenticate(key=key) == bob
    Membership.objects.filter(user=bob).delete()
    assert token_authenticate(key=key) is None, "no longer a member"
    Membership.objects.create(user=bob, workspace=workspace, role=Role.VIEWER)
    bob.is_active = False
    bob.save()
    assert token_authenticate(key=key) is None, "disabled"


def test_revoking_ends_a_token_at_once_and_can_be_repeated(alice: Any, workspace: Any):
    token, key = token_create(user=alice, workspace=workspace, name="laptop")
    token_revoke(token=token, actor=alice)
    token_revoke(token=token, actor=alice)
    assert token_authenticate(key=key) is None
    assert AuditEvent.objects.filter(action="token.revoke").count() == 1


def test_a_token_reaches_only_its_workspace_and_only_with_its_role(
    alice: Any, workspace: Any, project: Any, mallory: Any
):
    elsewhere = Project.objects.get(name="Elsewhere")
    Membership.objects.create(user=alice, workspace=elsewhere.workspace, role=Role.OWNER)
    _token, key = token_create(user=alice, workspace=workspace, name="reader", role=Role.VIEWER)
    caller = token_authenticate(key=key)
    assert caller is not None
    assert set(access.visible(Project.objects.all(), caller)) == {project}
    assert not access.visible(Project.objects.all(), caller, Role.EDITOR).exists()


def test_a_token_cannot_have_more_than_its_maker(carol: Any, workspace: Any, mallory: Any):
    with pytest.raises(Refused, match="Your own role there is viewer"):
        token_create(user=carol, workspace=workspace, name="laptop", role=Role.EDITOR)
    with pytest.raises(Refused, match="not a member"):
        token_create(user=mallory, workspace=workspace, name="laptop", role=Role.VIEWER)


def test_use_is_noted_once_a_minute(alice: Any, workspace: Any, django_assert_num_queries: Any):
    token, key = token_create(user=alice, workspace=workspace, name="laptop")
    token_authenticate(key=key)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None
    token_authenticate(key=key)
    token.refresh_from_db()
    assert token.last_used_at == first


def test_the_page_shows_the_key_once(client: Client, alice: Any, workspace: Any):
    client.force_login(alice)
    form = {"name": "laptop <b>", "workspace": workspace.pk, "role": Role.EDITOR.value, "expires": "30"}
    page = client.post(reverse("tokens"), form).content.decode()
    token = ApiToken.objects.get()
    assert f">{token.prefix}" in page
    key = page.split('id="new-key"')[1].split(">", 1)[1].split("<", 1)[0]
    assert token_authenticate(key=key) == alice
    later = client.get(reverse("tokens")).content.decode()
    assert key not in later
    assert "laptop &lt;b&gt;" in later
    assert timedelta(days=29) < token.expires_at - timezone.now() < timedelta(days=31)


def test_the_page_offers_no_role_above_ones_own(client: Client, carol: Any, workspace: Any):
    client.force_login(carol)
    form = {"name": "laptop", "workspace": workspace.pk, "role": Role.OWNER.value, "expires": ""}
    assert client.post(reverse("tokens"), form).status_code == 200
    assert not ApiToken.objects.exists()


def test_only_its_owner_revokes_a_token(client: Client, alice: Any, bob: Any, workspace: Any):
    token, key = token_create(user=alice, workspace=workspace, name="laptop")
    client.force_login(bob)
    assert client.post(reverse("token-revoke", args=[token.pk])).status_code == 404
    client.force_login(alice)
    assert client.get(reverse("token-revoke", args=[token.pk])).status_code == 405
    assert token_authenticate(key=key) == alice
    assert client.post(reverse("token-revoke", args=[token.pk])).status_code == 302
    assert token_authenticate(key=key) is None
