"""Managing a team in a real browser: by keyboard, without scripts, with downloads and key files."""

from __future__ import annotations

import json
from typing import Any

import pytest
import scenes
from django.urls import reverse

from workspaces.invitations import invitation_create
from workspaces.models import Invitation, Membership, Role, Secret, User

PASSWORD = "five words in one row"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_member_is_invited_raised_and_removed_by_keyboard(visit: Any, alice: Any, carol: Any, workspace: Any):
    window = visit(alice)
    page = window.open(reverse("members", args=[workspace.pk]))
    page.get_by_label("E-mail").focus()
    page.keyboard.type("new@example.org")
    page.keyboard.press("Enter")
    page.get_by_text("is on its way").wait_for()
    assert Invitation.objects.get().email == "new@example.org"
    page.get_by_label("Role of Carol").select_option(label="editor")
    page.get_by_label("Role of Carol").press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Carol is editor now").wait_for()
    assert Membership.objects.get(user=carol).role == Role.EDITOR
    page.get_by_role("button", name="Remove Carol").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remove member").focus()
    page.keyboard.press("Enter")
    page.get_by_text("no longer reach this workspace").wait_for()
    assert not Membership.objects.filter(user=carol).exists()
    assert window.problems == []


def test_an_invited_person_joins_without_scripts(visit: Any, alice: Any, workspace: Any, project: Any):
    scenes.fill_team(workspace, alice)
    window = visit(None, scripts=False)
    page = window.open(reverse("invitation", args=[scenes.INVITATION_KEY]))
    page.get_by_label("Name").fill("Neo")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    page.wait_for_url(f"**{reverse('project-home', args=[project.pk])}")
    assert Membership.objects.filter(user__email="new0@example.org", workspace=workspace).exists()


def test_who_can_see_this_asks_nothing_before_it_is_opened_and_once_then(visit: Any, bob: Any, project: Any):
    window = visit(bob)
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url) if "/who/" in request.url else None)
    page = window.open(reverse("project-home", args=[project.pk]))
    summary = page.get_by_text("Who can see this")
    assert asked == []
    summary.click()
    page.locator(".who-list").get_by_text("Alice").wait_for()
    summary.click()
    summary.click()
    page.locator(".who-list").get_by_text("Alice").wait_for()
    assert len(asked) == 1
    assert window.problems == []


def test_ones_data_is_downloaded_as_often_as_one_likes(visit: Any, bob: Any):
    page = visit(bob).open(reverse("account"))
    for _ in range(2):
        with page.expect_download() as download:
            page.get_by_role("button", name="Download my data").click()
        data = json.loads(download.value.path().read_text())
        assert data["account"][0]["email"] == bob.email
    assert page.get_by_role("button", name="Download my data").get_attribute("aria-busy") is None


def test_a_key_file_of_several_lines_is_kept_whole(visit: Any, alice: Any, workspace: Any):
    from workspaces.vault import secret_value

    window = visit(alice)
    page = window.open(reverse("secrets", args=[workspace.pk]))
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----"
    page.get_by_label("Name").fill("DEPLOY_KEY")
    page.get_by_label("Value").fill(key)
    page.get_by_role("button", name="Keep secret").click()
    page.get_by_text("is kept").wait_for()
    assert "MIIEvQIBADANBgkq" not in page.content()
    assert secret_value(workspace, "DEPLOY_KEY") == key
    assert Secret.objects.get().hint == "----"
    assert window.problems == []


def test_the_open_page_of_another_address_says_so(visit: Any, alice: Any, mallory: Any, workspace: Any):
    invitation_create(workspace=workspace, email="new0@example.org", role=Role.VIEWER, actor=alice)
    Invitation.objects.update(digest=scenes.hashlib.sha256(scenes.INVITATION_KEY.encode()).hexdigest())
    page = visit(mallory).open(reverse("invitation", args=[scenes.INVITATION_KEY]))
    page.get_by_text("This invitation is for another address").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in/")
    assert not User.objects.filter(email="new0@example.org").exists()
