"""The job form in a real browser: as text, as a copy, with the reward tried before paying; search by keyboard alone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import factories
import pytest
import scenes
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from jobs.models import Job
from jobs.sweeps import sweep_submit
from workspaces.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
expect.set_options(timeout=15_000)
FOLDER = os.environ.get("SCREENSHOTS", "")


@pytest.fixture
def filled(project: Any, alice: Any) -> Any:
    factories.node()
    factories.base_model()
    scenes.fill_rewards(project, alice)
    return scenes.upload(project, alice, "Sums", scenes.sums_rows(60))


def test_from_form_to_text_and_back_by_keyboard(visit: Any, alice: Any, project: Any, filled: Any):
    window = visit(alice)
    page = window.open(reverse("job-new", args=[project.pk]) + "?preset=format")
    page.get_by_role("tab", name="Form").focus()
    page.keyboard.press("ArrowRight")
    area = page.get_by_label("The task as YAML")
    expect(area).to_have_value(re.compile("recipe: grpo"))
    good = area.input_value()
    area.fill(good.replace("steps: 24", "steps: often"))
    page.get_by_role("button", name="Apply to form").click()
    expect(page.locator("#text-errors")).to_contain_text("hyperparameters.steps")
    page.get_by_role("link", name=re.compile("^Line")).click()
    assert "steps: often" in page.evaluate("document.getSelection().toString() || document.activeElement.value")
    area.fill(good.replace("steps: 24", "steps: 31"))
    page.get_by_role("button", name="Apply to form").click()
    expect(page.locator("#as-form")).to_be_visible()
    expect(page.locator('[name="hyperparameters.steps"]')).to_have_value("31")
    expect(page.locator("#form-card")).to_contain_text("31 steps")
    # The form that came back is alive: the dial sets its fields.
    page.get_by_label("Medium").check()
    expect(page.locator('[name="hyperparameters.steps"]')).to_have_value("100")
    page.get_by_role("button", name="Try it on five rows").click()
    expect(page.locator("#dry-run")).to_contain_text("an empty completion")
    assert window.problems == []


def test_typing_keeps_the_focus_while_the_copy_s_changes_are_told(visit: Any, alice: Any, project: Any, filled: Any):
    job = factories.job(project, alice, name="first")
    window = visit(alice)
    page = window.open(reverse("job-new", args=[project.pk]) + f"?copy={job.pk}")
    expect(page.locator("#form-card")).to_contain_text("Nothing so far")
    field = page.locator('[name="budget.amount"]')
    field.fill("0.5")
    expect(page.locator("#form-card")).to_contain_text("Budget")
    expect(field).to_be_focused()
    assert window.problems == []


def test_search_leads_to_a_job_by_keyboard_alone(visit: Any, alice: Any, project: Any, filled: Any):
    job = factories.job(project, alice, name="kestrel sums")
    window = visit(alice)
    page = window.open(reverse("project-home", args=[project.pk]))
    page.keyboard.press("Control+k")
    page.keyboard.type("kestrel")
    expect(page.get_by_role("option", name=re.compile("kestrel"))).to_have_attribute("aria-selected", "true")
    assert not _axe(page)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(str(job.pk)))
    assert window.problems == []


def test_without_data_an_example_becomes_a_job_in_a_few_clicks(visit: Any, alice: Any, project: Any):
    factories.node()
    factories.base_model()
    window = visit(alice)
    page = window.open(reverse("job-new", args=[project.pk]))
    page.get_by_role("button", name="Use example data: Mathematics with a verifier").click()
    expect(page.locator("#form-card")).to_contain_text("240 of 240 rows")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/"))
    assert Job.objects.count() == 1 and window.problems == []


LOOKS = [("dark", scenes.PHONE), *(pytest.param(*look, marks=pytest.mark.full) for look in (
    ("light", scenes.WIDE), ("light", scenes.PHONE), ("dark", scenes.WIDE)))]  # fmt: skip


@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_the_pages_are_sound_with_nasty_names(visit: Any, alice: Any, project: Any, filled: Any, theme: str, size: Any):
    User.objects.filter(pk=alice.pk).update(theme=theme)
    job = factories.job(project, alice, name=scenes.NASTY_NAMES[0])
    spec = job.spec | {"name": scenes.NASTY_NAMES[3][:100]}
    described = {"task": spec, "fields": {"seed": {"values": [1, 2]}}}
    sweep = sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    new = reverse("job-new", args=[project.pk])
    pages = {
        "form": new,
        "copy": f"{new}?copy={job.pk}",
        "sweeps": reverse("sweeps", args=[project.pk]),
        "sweep": reverse("sweep", args=[project.pk, sweep.pk]),
        "member": reverse("job", args=[project.pk, sweep.members.first().job_id]),
        "home": reverse("project-home", args=[project.pk]),
    }
    window = visit(alice, theme=theme, size=size)
    found = []
    for name, path in pages.items():
        page = window.open(path)
        if name in ("form", "copy"):
            for summary in page.locator("summary").all():
                if summary.is_visible():
                    summary.click()
        _shoot(page, f"{name}-{theme}-{size[0]}")
        found += [f"{name}: {line}" for line in _axe(page)]
        if window.overflow() > 0:
            found.append(f"{name} is {window.overflow()} px wider than the window")
    page.goto(f"{window.url}{new}?copy={job.pk}")
    page.get_by_role("tab", name="As YAML").click()
    expect(page.get_by_label("The task as YAML")).to_be_visible()
    _shoot(page, f"text-{theme}-{size[0]}")
    found += [f"text: {line}" for line in _axe(page)]
    if window.overflow() > 0:
        found.append(f"text is {window.overflow()} px wider than the window")
    # This server has no sockets; the page of a job goes on without.
    assert found == [] and [problem for problem in window.problems if "/ws/" not in problem] == []


def _shoot(page: Any, name: str) -> None:
    if FOLDER:
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{FOLDER}/{name}.png", full_page=True)


def _axe(page: Any) -> list[str]:
    return [
        f"{v['id']} ({v['impact']}): {[node['target'] for node in v['nodes']][:3]}"
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
