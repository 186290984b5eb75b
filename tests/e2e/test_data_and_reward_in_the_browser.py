"""A newcomer's first two steps by mouse and keyboard: a file of their own, and a reward that is tried on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catalog.models import DatasetVersion, RewardVersion

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_from_nothing_to_data_and_a_tried_reward(visit: Any, bob: Any, project: Any, tmp_path: Path):
    rows = [{"题目": f"{n} 加 1 等于多少？", "标准答案": str(n + 1)} for n in range(2000)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    for line in (10, 20, 30):
        lines[line - 1] = "{broken"
    file = tmp_path / "加法.jsonl"
    file.write_text("\n".join(lines))
    window = visit(bob)
    page = window.open("/")

    page.get_by_role("link", name="Upload data").click()
    page.get_by_label("File", exact=True).set_input_files(file)
    assert page.get_by_label("Name").input_value() == "加法"
    page.get_by_role("button", name="Upload and check").click()
    page.wait_for_url("**/datasets/*-*/")
    assert page.get_by_role("heading", level=1).inner_text().startswith("加法")
    assert "1,997" in page.get_by_label("In short").inner_text()
    assert page.get_by_role("row").filter(has_text="not valid JSON").inner_text().startswith("10, 20, 30")
    version = DatasetVersion.objects.get()
    assert (version.rows, version.usable_rows) == (2000, 1997)

    page.get_by_role("link", name="Rewards").first.click()
    page.get_by_role("link", name="Define a reward").click()
    page.get_by_role("button", name="Try", exact=True).click()
    page.get_by_text("It tells right from wrong").wait_for()
    page.get_by_label("Name", exact=True).fill("对了没有")
    page.get_by_role("button", name="Add component").click()
    page.get_by_role("button", name="Matches a pattern").click()
    page.get_by_label("Regular expression", exact=True).fill("(")
    page.get_by_role("button", name="Try", exact=True).click()
    page.get_by_text("Not a regular expression").wait_for()
    page.get_by_label("Regular expression", exact=True).fill(r"^\d+$")
    page.get_by_role("button", name="Try", exact=True).click()
    page.get_by_text("It tells right from wrong").wait_for()
    assert page.get_by_label("Completion", exact=True).is_hidden()
    page.get_by_role("button", name="Move up: Matches a pattern").click()
    page.get_by_role("button", name="Try", exact=True).click()
    page.get_by_role("button", name="Move up: Equal to the answer").click()
    page.get_by_role("button", name="Save reward").click()
    page.get_by_text("Saved as version 1.").wait_for()
    assert [part["kind"] for part in RewardVersion.objects.get().spec["components"]] == ["exact", "pattern"]
    assert window.problems == []


def test_a_file_that_is_no_data_stays_on_the_page_with_the_reasons(visit: Any, bob: Any, project: Any, tmp_path: Path):
    file = tmp_path / "list.jsonl"
    file.write_text('{"甲": "一加一", "乙": "2"}\n')
    window = visit(bob)
    page = window.open(f"/projects/{project.pk}/datasets/upload/")
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    page.get_by_role("alert").filter(has_text="No column looks like a prompt").wait_for()
    assert page.locator("#file-columns option").evaluate_all("all => all.map(one => one.value)") == ["甲", "乙"]
    assert page.get_by_role("alert").count() == 1 and page.get_by_text("No column looks like a prompt").count() == 1
    page.get_by_label("Prompt column").fill("甲")
    page.get_by_label("Answer column").fill("乙")
    page.get_by_role("button", name="Upload and check").click()
    page.wait_for_url("**/datasets/*-*/")
    assert DatasetVersion.objects.get().usable_rows == 1
    assert [problem for problem in window.problems if "422" not in problem] == []


def test_a_component_can_be_removed_and_the_page_stays_usable_by_keyboard(visit: Any, bob: Any, project: Any):
    window = visit(bob)
    page = window.open(f"/projects/{project.pk}/rewards/new/")
    page.get_by_role("button", name="Remove: Equal to the answer").focus()
    page.keyboard.press("Enter")
    assert page.locator("[data-component]").count() == 0
    page.get_by_role("button", name="Add component").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("[data-component]").wait_for()
    assert window.problems == []
