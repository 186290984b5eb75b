"""The whole product in a browser: from a file of one's own to a trained model, with the curves moving meanwhile.

A real launcher, real Ray, a real (tiny, random) language model. Nothing here touches the database except the pages.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
EMAIL, PASSWORD = "walker@example.com", "five words in one row"
PERSON = (
    "from workspaces.services import owner_create; "
    f"owner_create(email={EMAIL!r}, password={PASSWORD!r}, name='Walker', workspace_name='Hikers', project_name='Sums')"
)
ROWS, BAD = 300, {17, 60, 61, 150, 151, 152, 299}
STEPS = 80
PANELS = {"Rollouts": ".sample", "Log": ".log-line", "Timeline": "li", "Cost": "tbody tr", "Config": "dd"}
FOLDER = os.environ.get("SCREENSHOTS", "")

# Notes when each new reward reached its drawing, against when the training process made it; one clock, one machine.
WATCH = """() => {
  window.arrivals = [];
  window.lengths = [];
  let known = 0;
  function look() {
    requestAnimationFrame(look);
    const drawn = document.querySelector('.chart[data-key="train/reward"] .chart-plot')?.data?.at(-1).x.length ?? 0;
    if (drawn <= known) return;
    const points = window.tuneyard.job.store.get("train/reward").points;
    for (const point of points.slice(known, drawn)) window.arrivals.push(Date.now() / 1000 - point.t);
    window.lengths.push(drawn);
    known = drawn;
  }
  look();
}"""


@pytest.fixture
def page(chromium: Browser, stack: Any) -> Iterator[Page]:
    stack.manage("shell", "-c", PERSON)
    context = chromium.new_context(base_url=stack.url, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    yield page
    context.close()


def until(page: Page, condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not in {seconds:.0f} s. The page says:\n{page.locator('main').inner_text()[:3000]}")
        page.wait_for_timeout(50)


def shoot(page: Page, name: str) -> None:
    if FOLDER:
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{FOLDER}/first-light-{name}.png", full_page=True)


def file_of_their_own(folder: Path) -> Path:
    """Rows of a kind that is not in the repository: other column names, Chinese text, a few broken lines."""
    sums = [(n % 9 + 1, n % 7 + 1, n) for n in range(ROWS)]
    rows = [{"题目": f"{a} 加 {b} 等于多少？（第 {n} 题）", "标准答案": str(a + b)} for a, b, n in sums]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    for number in BAD:
        lines[number] = '{"题目": "坏'
    path = folder / "算术题.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_from_a_file_to_a_trained_model(page: Page, tmp_path: Path):
    sign_in(page)
    upload(page, file_of_their_own(tmp_path))
    make_reward(page)
    start_job(page)
    watch(page)
    look_at_the_result(page)
    # The form refused once, and on purpose.
    problems = [text for text in page.problems if "status of 422" not in text]
    assert "\n".join(problems) == ""


def sign_in(page: Page) -> None:
    page.goto("/")
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/projects/*/")


def upload(page: Page, file: Path) -> None:
    page.get_by_role("link", name="Upload data").click()
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    page.wait_for_url("**/datasets/*-*/")
    assert "293" in page.get_by_label("In short").inner_text()
    shoot(page, "dataset")


def make_reward(page: Page) -> None:
    page.get_by_role("link", name="Rewards").first.click()
    page.get_by_role("link", name="Define a reward").click()
    page.get_by_label("Name", exact=True).fill("算对了")
    page.get_by_role("button", name="Save reward").click()
    page.get_by_text("Saved as version 1.").wait_for()


def start_job(page: Page) -> None:
    page.get_by_role("link", name="Jobs").first.click()
    page.get_by_role("link", name=re.compile("New job|Make the first job")).first.click()
    page.locator("[name='model.base']").select_option("tiny-random-llama")
    # What the check of the file found must be accepted before anything starts.
    page.get_by_role("button", name="Start training").click()
    page.get_by_text("7 of 300 rows cannot be used").first.wait_for()
    page.locator("[name='data.max_bad_rows']").fill("7")
    for fold in page.locator("details.fold > summary").all():
        fold.click()
    for name, value in {
        "hyperparameters.steps": STEPS,
        "hyperparameters.batch_size": 8,
        "sampling.group_size": 8,
        "sampling.max_new_tokens": 48,
        "evaluation.prompts": 16,
        "evaluation.every_steps": 40,
    }.items():
        page.locator(f"[name='{name}']").fill(str(value))
    page.locator("#form-card").get_by_text(f"{STEPS} steps.").wait_for()
    shoot(page, "form")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url("**/jobs/*-*/")


def watch(page: Page) -> None:
    """Curves grow while one looks, without a reload; the job then succeeds by itself."""
    page.wait_for_selector("body[data-caught-up]", state="attached")
    page.evaluate(WATCH)
    page.evaluate("window.untouched = true")

    def points() -> int:
        return page.evaluate("window.tuneyard.job.store.get('train/reward')?.points.length ?? 0")

    def ended() -> bool:
        return page.locator("#job-head .state").inner_text() in ("Succeeded", "Failed", "Cancelled")

    until(page, lambda: points() > 0, "the first point")
    shoot(page, "running")
    until(page, ended, "the end")
    assert page.locator("#job-head .state").inner_text() == "Succeeded", page.locator("#job-outcome").inner_text()
    until(page, lambda: points() == STEPS, "the last point", 20)
    assert page.evaluate("window.untouched"), "no reload"
    assert len(page.evaluate("window.lengths")) > 3, "the curve moved while it was looked at"
    steps = page.evaluate("window.tuneyard.job.store.get('train/reward').points.map((point) => point.step)")
    assert steps == list(range(1, STEPS + 1)), "every step once"
    arrivals = sorted(page.evaluate("window.arrivals"))
    # How soon they come is measured by `make prove`; here, that each is noticed, and none before it was made.
    assert len(arrivals) > STEPS // 2 and arrivals[0] >= 0


def look_at_the_result(page: Page) -> None:
    outcome = page.locator("#job-outcome")
    outcome.get_by_text("held-out prompts, before and after").wait_for()
    shoot(page, "succeeded")
    with page.expect_popup() as popup:
        outcome.get_by_role("link", name="Report", exact=True).click()
    report = popup.value
    report.locator(".main-svg").first.wait_for()
    if FOLDER:
        report.screenshot(path=f"{FOLDER}/first-light-report.png", full_page=True)
    report.close()
    for tab, shown in PANELS.items():
        page.get_by_role("link", name=tab, exact=True).click()
        page.locator(f'[data-panel="{tab.lower()}"] {shown}').first.wait_for()
        shoot(page, tab.lower())
    page.get_by_role("link", name="Open the model").click()
    page.wait_for_url("**/models/*-*/*")
    assert "算术题-grpo" in page.get_by_role("heading", level=1).inner_text()
    shoot(page, "model")
