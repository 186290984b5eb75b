"""A person's own settings, and making a project."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from workspaces.models import Project

pytestmark = pytest.mark.django_db


def test_the_theme_is_remembered(client: Client, alice: Any):
    client.force_login(alice)
    assert client.post(reverse("theme"), {"theme": "dark"}, headers={"X-Requested-With": "fetch"}).status_code == 204
    alice.refresh_from_db()
    assert alice.theme == "dark"
    assert 'data-bs-theme="dark"' in client.get(reverse("settings")).content.decode()
    assert client.post(reverse("theme"), {"theme": "purple"}).status_code == 400


def test_without_script_the_theme_form_leads_back(client: Client, alice: Any):
    client.force_login(alice)
    back = client.post(reverse("theme"), {"theme": "light"}, headers={"Referer": "https://evil.example/"})
    assert back["Location"] == reverse("home")


def test_name_and_time_zone(client: Client, alice: Any):
    client.force_login(alice)
    assert client.post(reverse("settings"), {"name": "Ada <b>", "time_zone": "Asia/Shanghai"}).status_code == 302
    alice.refresh_from_db()
    assert (alice.name, alice.time_zone) == ("Ada <b>", "Asia/Shanghai")
    assert client.post(reverse("settings"), {"name": "Ada", "time_zone": "Mars/Olympus"}).status_code == 200
    alice.refresh_from_db()
    assert alice.time_zone == "Asia/Shanghai"


def test_a_new_password_keeps_this_session_and_ends_the_others(client: Client, alice: Any):
    alice.set_password("five words in one row")
    alice.save()
    other = Client()
    for browser in (client, other):
        browser.force_login(alice)
    form = {
        "old_password": "five words in one row",
        "new_password1": "six other words",
        "new_password2": "six other words",
    }
    assert client.post(reverse("password"), form).status_code == 302
    assert client.get(reverse("settings")).status_code == 200
    assert other.get(reverse("settings")).status_code == 302


def test_editors_make_projects_and_viewers_do_not(client: Client, bob: Any, carol: Any, mallory: Any, workspace: Any):
    url = reverse("project-new", args=[workspace.pk])
    for person, expected in ((mallory, 404), (carol, 403)):
        client.force_login(person)
        assert client.post(url, {"name": "New"}).status_code == expected
    client.force_login(bob)
    assert client.post(url, {"name": "New"}).status_code == 302
    again = client.post(url, {"name": "new"})
    assert "already has a project" in again.content.decode()
    assert Project.objects.filter(workspace=workspace).count() == 1
