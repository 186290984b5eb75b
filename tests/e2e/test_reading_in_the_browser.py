"""Reading what a job did: samples by keyboard and filters, a long log with its search; looked at by axe."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import factories
import pytest
import scenes
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_log, write_rollouts
from job_site import serving, until

from jobs.models import Job
from records.models import LogLine

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
FOLDER = os.environ.get("SCREENSHOTS", "")
HOSTILE = f"{scenes.NASTY_NAMES[0]} \x1b[31m {scenes.NASTY_NAMES[2]}"


@pytest.fixture
def job(project: Any, alice: Any) -> Job:
    job = factories.job(project, alice, name="sums")
    attempt = run_job(job)
    for step in (1, 2):
        write_rollouts(job, attempt, step=step, phase="eval", groups=3, completion=f"It is {step}. " + "x" * 4500)
    write_rollouts(
        job, attempt, step=3, completion=HOSTILE, prompt=HOSTILE, answer=HOSTILE, parts={"right": 1.0, "b": -0.5}
    )
    write_log(job, attempt, ["the first line", HOSTILE])
    start = timezone.now() - timedelta(hours=1)
    LogLine.objects.bulk_create(
        LogLine(
            subject_kind="job", subject_id=job.pk, attempt=1, seq=100 + n, level="warning" if n % 500 == 0 else "info",
            text=f"line {n}", at=start + timedelta(seconds=n),
        )
        for n in range(3000)
    )  # fmt: skip
    attempt.cursor = 4000
    attempt.save(update_fields=["cursor"])
    return job


def serious(page: Any) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['target']}" for v in found if v["impact"] in ("serious", "critical")]


def shoot(page: Any, name: str) -> None:
    if FOLDER:
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{FOLDER}/{name}.png", full_page=True)


@pytest.mark.parametrize(("theme", "size"), [("light", scenes.WIDE), ("dark", scenes.PHONE)])
def test_samples_and_log_are_read(visit: Any, alice: Any, job: Job, theme: str, size: Any):
    type(alice).objects.filter(pk=alice.pk).update(theme=theme)
    with serving() as url:
        window = visit(alice, theme=theme, size=size, url=url)
        page = window.open(reverse("job", args=[job.project_id, job.pk]) + "?tab=rollouts&r.at=2/eval")
        place = page.locator("#rollouts")
        place.locator("[data-sample]").first.wait_for()
        assert place.locator("select[name=at]").input_value() == "2/eval"
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.evaluate("[...document.querySelectorAll('[data-sample]')].indexOf(document.activeElement)") == 1
        page.keyboard.press("ArrowLeft")
        until(page, lambda: page.evaluate("document.querySelector('#rollouts select[name=at]').value === '1/eval'"))
        place.get_by_role("button", name="Compare steps").first.click()
        place.locator(".rollout-diff ins").first.wait_for()
        place.locator(".sample").first.get_by_role("button", name="Show all").click()
        until(page, lambda: page.evaluate("document.querySelector('.sample .verbatim').textContent.length > 4400"))
        assert serious(page) == []
        shoot(page, f"rollouts-{theme}")
        place.locator("select[name=only]").select_option("wrong")
        until(page, lambda: page.evaluate("location.search.includes('r.only=wrong')"))
        until(page, lambda: page.evaluate("!document.querySelector('#rollouts .sample.right')"))
        place.locator("[name=q]").fill("It is 1")
        until(page, lambda: page.evaluate("location.search.includes('r.q=')"))
        page.reload()
        place.locator("[data-sample]").first.wait_for()
        assert place.locator("[name=q]").input_value() == "It is 1"
        assert place.locator("select[name=only]").input_value() == "wrong"

        page = window.open(reverse("job", args=[job.project_id, job.pk]) + "?tab=log")
        page.get_by_text("line 2999", exact=True).wait_for()
        assert page.locator(".log-line").count() <= 1600
        page.locator("[data-log-search]").fill("line 1234")
        page.locator("[data-hit]").first.click()
        page.locator(".log-hit", has_text="line 1234").wait_for()
        assert page.get_by_text("line 1233", exact=True).count() == 1
        assert serious(page) == []
        shoot(page, f"log-{theme}")
        page.locator("[data-log-lines]").evaluate("(box) => { box.scrollTop = 0; }")
        page.get_by_text("line 1000", exact=True).wait_for(state="attached")
        page.get_by_role("button", name="Follow the end").click()
        page.get_by_text("line 2999", exact=True).wait_for()
        assert window.overflow() <= 0
        assert window.problems == []
