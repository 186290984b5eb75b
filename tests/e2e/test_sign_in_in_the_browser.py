"""Signing in and out, the colours and the rail, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

PASSWORD = "five words in one row"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_person_signs_in_by_keyboard_and_out_again(visit: Any, alice: Any, project: Any):
    alice.set_password(PASSWORD)
    alice.save()
    window = visit(None)
    page = window.open(f"/projects/{project.pk}/rewards/")
    page.keyboard.type(alice.email)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/projects/{project.pk}/rewards/")
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in/")
    assert window.problems == []


def test_the_colours_change_at_once_and_are_remembered(visit: Any, alice: Any, project: Any):
    window = visit(alice)
    page = window.open(f"/projects/{project.pk}/")
    assert page.locator("html").get_attribute("data-bs-theme") == "light"
    page.get_by_role("button", name="Colours").click()
    with page.expect_response("**/settings/theme/"):
        page.get_by_role("button", name="Dark").click()
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    page.reload()
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    assert window.problems == []


def test_a_narrow_rail_stays_narrow(visit: Any, alice: Any, project: Any):
    window = visit(alice)
    page = window.open(f"/projects/{project.pk}/")
    page.get_by_role("button", name="Narrow the menu").click()
    page.reload()
    assert page.locator(".frame").get_attribute("data-rail") == "closed"
    assert page.locator(".rail").bounding_box()["width"] == 48
    assert window.problems == []
