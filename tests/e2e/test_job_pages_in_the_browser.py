"""The job form and the list in a real browser, and all pages of jobs against accessibility rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import factories
import pytest
import scenes
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from job_rows import run_job, write_log, write_points, write_rollouts
from job_site import curves, job_tabs, serving, settle

from catalog.models import DatasetVersion
from jobs.models import Job
from workspaces.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def version(project: Any, alice: Any) -> DatasetVersion:
    factories.node()
    factories.base_model()
    scenes.fill_rewards(project, alice)
    return scenes.upload(project, alice, "Sums", scenes.sums_rows(200))


@pytest.fixture
def form(visit: Any, alice: Any, site: str, project: Any, version: DatasetVersion) -> Any:
    reward = project.rewards.get(name="Right sum").versions.get()
    window = visit(alice, url=site)
    window.open(f"{reverse('job-new', args=[project.pk])}?dataset={version.pk}&reward={reward.pk}")
    return window


def test_the_dial_sets_its_fields_and_they_set_the_dial(form):
    page = form.page
    page.get_by_text("Medium", exact=True).click()
    assert page.locator("[name='hyperparameters.steps']").input_value() == "100"
    page.get_by_text("Advanced Sampling").click()
    page.locator("[name='hyperparameters.steps']").fill("7")
    assert page.locator("[name=size][value=custom]").is_checked()
    page.locator("[name='hyperparameters.steps']").fill("100")
    assert page.locator("[name=size][value=medium]").is_checked()
    assert form.problems == []


def test_the_card_follows_what_is_typed(form):
    page = form.page
    card = page.locator("#form-card")
    card.get_by_text("20 steps.").wait_for()
    page.get_by_text("Large", exact=True).click()
    card.get_by_text("400 steps.").wait_for()
    page.locator("[name='data.source']").select_option(index=0)
    card.get_by_text("Choose a dataset").wait_for()
    page.get_by_text("Imitate answers").click()
    assert not page.locator("#f-reward").is_visible()
    assert form.problems == []


def test_another_dataset_brings_its_own_columns(form, project, alice):
    page = form.page
    scenes.upload(project, alice, "Others", [json.dumps({"题目": "一加一", "question": "1+1?", "answer": "2"})] * 20)
    page.reload()
    page.locator("[name='data.source']").select_option(label="Others v1 · 20 rows")
    page.locator("[name='data.columns.prompt'] option", has_text="题目").wait_for(state="attached")


def test_a_double_click_starts_one_job(form):
    page = form.page
    page.get_by_role("button", name="Start training").dblclick()
    page.wait_for_url("**/jobs/*-*/")
    assert Job.objects.count() == 1
    settle(page)
    assert page.locator("#job-head .state").inner_text() == "Queued"


def test_the_button_is_busy_at_once(form):
    page = form.page
    held = []
    page.route(re.compile(r"/jobs/new/(\?.*)?$"), lambda route: held.append(route))
    # One call for all of it: any later one would wait for the navigation that is held back.
    at_once, later = page.evaluate("""async () => {
      const button = document.querySelector(".btn-start");
      button.click();
      const atOnce = button.getAttribute("aria-busy");
      document.querySelector("[name=name]").dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 800));
      return [atOnce, button.getAttribute("aria-busy")];
    }""")
    assert at_once == "true"
    assert later == "true", "a late answer for the card does not make it look idle"
    assert len(held) == 1
    held[0].abort()


def test_an_error_is_in_sight_with_what_was_typed(form):
    page = form.page
    page.get_by_text("Advanced Sampling").click()
    page.locator("[name='hyperparameters.learning_rate']").fill("fast")
    page.get_by_role("button", name="Start training").click()
    page.get_by_text("Must be a number, above 0 – 1.").first.wait_for()
    wrong = page.locator("[name='hyperparameters.learning_rate']")
    assert wrong.is_visible() and wrong.input_value() == "fast"
    assert page.evaluate("document.activeElement.name") == "hyperparameters.learning_rate"
    assert not Job.objects.exists()


def test_a_job_can_be_made_by_keyboard_alone(form):
    page = form.page
    page.locator("[name=name]").focus()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*-*/")
    assert Job.objects.get().name == "by keyboard"


def test_without_scripts_a_job_can_be_checked_and_started(visit, site, alice, project, version):
    window = visit(alice, url=site, scripts=False)
    page = window.open(f"{reverse('job-new', args=[project.pk])}?dataset={version.pk}")
    page.locator("#f-reward").select_option(label="Right sum v1")
    page.get_by_role("button", name="Check without starting").click()
    page.get_by_text("20 steps.").wait_for()
    page.get_by_role("button", name="Start training").click()
    page.get_by_text("Waiting · position").or_(page.get_by_text("Waiting", exact=True)).first.wait_for()
    page.get_by_role("link", name="Timeline").click()
    page.get_by_text("Submitted.").wait_for()


def test_the_list_filters_and_searches(visit, alice, site, project, version):
    scenes.fill_jobs(project, alice, ("sums", "poems"))
    window = visit(alice, url=site)
    page = window.open(reverse("jobs", args=[project.pk]))
    page.get_by_role("link", name="Failed 2").click()
    page.get_by_label("Search by name").fill("poem")
    page.get_by_role("main").get_by_role("button", name="Search").click()
    assert page.locator(".job-table tbody tr").count() == 1
    assert "state=failed" in page.url and "q=poem" in page.url
    page.go_back()
    assert page.locator(".job-table tbody tr").count() == 2
    assert window.problems == []


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.full)])
def test_no_page_has_a_serious_accessibility_finding(visit, alice, site, project, version, theme):
    User.objects.filter(pk=alice.pk).update(theme=theme)
    jobs = scenes.fill_jobs(project, alice)
    job = next(job for job in jobs if job.state == "running")
    attempt = run_job(job)
    write_points(job, attempt, curves(30))
    write_log(job, attempt, ["one", "two"], level="warning")
    write_rollouts(job, attempt, step=30)
    pages = {"list": reverse("jobs", args=[project.pk]), "form": reverse("job-new", args=[project.pk])}
    here = reverse("job", args=[project.pk, job.pk])
    pages |= {tab: f"{here}?tab={tab}" for tab in job_tabs()}
    pages |= {other.state: reverse("job", args=[project.pk, other.pk]) for other in jobs}
    window = visit(alice, theme=theme, url=site)
    found = []
    for name, path in pages.items():
        page = window.open(path)
        if "/new/" not in path and name != "list":
            settle(page)
        if name == "rollouts":
            page.locator("#rollouts .sample").first.wait_for()
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                targets = [node["target"] for node in violation["nodes"][:3]]
                found.append(f"{name}: {violation['id']} {violation['help']} {targets}")
    assert found == []
