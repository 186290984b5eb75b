"""Comparing runs in a real browser, and what the toolbar and the cards can do there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import factories
import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from job_rows import run_job, write_points
from job_site import aside, curves, serving, settle, until

from jobs.models import Job
from workspaces.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LOSS = '.chart[data-key="train/loss"]'
EVIL = "<b>sums</b> & %{x}"


@pytest.fixture
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def jobs(project: Any, alice: Any) -> list[Job]:
    factories.node()
    found = []
    for number in range(3):
        settings = {"steps": 4, "learning_rate": 10 ** -(3 + number), "batch_size": 4 + number}
        name = EVIL if number == 2 else "sums"
        job = factories.job(project, alice, name=name, hyperparameters=settings)
        values = curves(30)
        values["train/loss"][-1] = 0.01 * (number + 1)
        write_points(job, run_job(job), values)
        found.append(job)
    return found


def address(jobs: list[Job], query: str = "") -> str:
    ids = ",".join(str(job.pk) for job in jobs)
    return f"{reverse('compare', args=[jobs[0].project_id])}?jobs={ids}{query}"


def drawn(page: Any, card: str = LOSS) -> list[Any]:
    """The names of the lines of a chart, once it is drawn."""
    names = "(card) => document.querySelector(`${card} .chart-plot`)?.data?.map((trace) => trace.name) ?? []"
    # An empty plot stands there before its lines have come.
    until(page, lambda: page.evaluate(names, card))
    return page.evaluate(names, card)


def test_runs_are_overlaid_sorted_compared_and_taken_out(visit, alice, site, jobs):
    window = visit(alice, url=site)
    page = window.open(address(jobs))
    settle(page)
    names = set(drawn(page))
    assert len(names) == 3 and sum(name.startswith("sums · ") for name in names) == 2
    assert any(name.startswith("&lt;b>") for name in names), "a name is no markup"
    page.get_by_role("button", name="train/loss").first.click()
    cells = "#compare-table tbody td[data-metric='train/loss']"
    order = f'[...document.querySelectorAll("{cells}")].map((cell) => +cell.dataset.value)'
    descending = page.evaluate(order)
    assert descending == sorted(descending, reverse=True)
    page.get_by_role("button", name="train/loss").first.click()
    assert page.evaluate(order) == descending[::-1]
    page.locator(".parallel-run").first.focus()
    assert "hyperparameters.learning_rate" in page.locator("[data-parallel-told]").inner_text()
    page.locator(".run-remove").first.click()
    page.get_by_role("heading", name="Compare 2 runs").wait_for()
    until(page, lambda: len(set(drawn(page))) == 2)
    assert window.problems == []


def test_a_running_run_goes_on_by_itself(visit, alice, site, jobs):
    window = visit(alice, url=site)
    window.page.add_init_script(
        "setInterval = ((real) => (call, ms, ...rest) => real(call, ms === 5000 ? 200 : ms, ...rest))(setInterval);"
    )
    page = window.open(address(jobs))
    settle(page)
    drawn(page)
    aside(lambda: write_points(jobs[0], jobs[0].attempts.get(), {"train/loss": [0.5]}, first_step=31))
    until(
        page,
        lambda: page.evaluate(
            f"document.querySelector('{LOSS} .chart-plot').data.some((trace) => trace.x.at(-1) === 31)"
        ),
    )


def test_the_toolbar_lives_in_the_address_and_with_the_person(visit, alice, site, jobs):
    page = visit(alice, url=site).open(address(jobs))
    settle(page)
    page.locator("[name=x]").select_option("tokens")
    page.locator("[name=logx]").check()
    page.locator("[name=clip]").check()
    with page.expect_response("**/charts/view/"):
        page.locator("[name=show]").fill("loss$")
    assert page.locator(".chart:visible").count() == 1
    page.reload()
    settle(page)
    assert page.locator(".chart:visible").count() == 1
    for control in ("logx", "clip"):
        assert page.locator(f"[name={control}]").is_checked()
    # Elsewhere in the project, without anything in the address: the person's choice, not the filter of the moment.
    other = visit(alice, url=site).open(reverse("job", args=[jobs[0].project_id, jobs[0].pk]))
    settle(other)
    assert other.locator("[name=x]").input_value() == "tokens" and other.locator("[name=logx]").is_checked()
    assert other.locator("[name=show]").input_value() == ""


def test_charts_are_pointed_at_and_zoomed_together(visit, alice, site, jobs):
    page = visit(alice, url=site).open(reverse("job", args=[jobs[0].project_id, jobs[0].pk]))
    settle(page)
    drawn(page)
    box = page.locator('.chart[data-key="train/reward"] .nsewdrag').first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    until(page, lambda: page.evaluate("document.querySelectorAll('.chart-cross').length > 3"))
    page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=5)
    page.mouse.up()
    ranges = (
        "[...document.querySelectorAll('.chart-plot')].filter((p) => p.layout).map((p) => String(p.layout.xaxis.range))"
    )
    until(
        page,
        lambda: page.evaluate(
            f"(() => {{ const all = {ranges}; return all.length > 3 && new Set(all).size === 1; }})()"
        ),
    )
    zoom = re.search(r"zoom=([\d.]+)%7E([\d.]+)", page.url) or re.search(r"zoom=([\d.]+)~([\d.]+)", page.url)
    assert zoom and 1 < float(zoom[1]) < float(zoom[2]) < 30
    page.mouse.dblclick(box["x"] + box["width"] * 0.5, middle)
    until(page, lambda: page.evaluate("!location.search.includes('zoom=')"))


def test_a_card_fills_the_screen_and_leaves_as_files(visit, alice, site, jobs):
    window = visit(alice, url=site)
    page = window.open(address(jobs))
    settle(page)
    drawn(page)
    more = page.locator(f"{LOSS} .chart-more")

    def choose(name: str) -> None:
        more.click()
        page.get_by_role("menuitem", name=name).click()

    for name, ending in (("Picture as PNG", ".png"), ("Picture as SVG", ".svg"), ("Points as CSV", ".csv")):
        with page.expect_download() as kept:
            choose(name)
        assert kept.value.suggested_filename.endswith(ending)
        assert kept.value.path().stat().st_size > 500
    choose("Full screen")
    large = page.locator("dialog.chart-large .chart-plot")
    until(page, lambda: page.evaluate("document.querySelector('dialog.chart-large .chart-plot').layout?.height > 400"))
    assert large.bounding_box()["width"] > 1000
    page.keyboard.press("Escape")
    assert page.locator("dialog.chart-large").count() == 0
    until(page, lambda: page.evaluate(f"document.querySelector('{LOSS} .chart-plot').layout?.height < 300"))
    assert window.problems == []


def test_a_level_line_has_a_range_of_its_own_size_and_outliers_can_be_cut(visit, alice, site, jobs):
    values = {"train/flat": [2e-4] * 40, "train/spiky": [1.0, 2.0] * 50}
    values["train/spiky"][50] = 1e6
    aside(lambda: write_points(jobs[0], jobs[0].attempts.get(), values, first_step=31))
    page = visit(alice, url=site).open(
        reverse("job", args=[jobs[0].project_id, jobs[0].pk]) + "?smooth=0&show=flat|spiky"
    )
    settle(page)

    def span(key: str) -> list[float]:
        card = f'.chart[data-key="{key}"]'
        drawn(page, card)
        return page.evaluate(f"document.querySelector('{card} .chart-plot')._fullLayout.yaxis.range")

    low, high = span("train/flat")
    assert 0 < low < 2e-4 < high < 1e-3
    assert span("train/spiky")[1] > 1e5
    page.locator("[name=clip]").check()
    until(
        page,
        lambda: page.evaluate(
            "document.querySelector('.chart[data-key=\"train/spiky\"] .chart-plot')._fullLayout.yaxis.range[1] < 10"
        ),
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_comparison(visit, alice, site, jobs, theme):
    User.objects.update(theme=theme)
    page = visit(alice, url=site, theme=theme).open(address(jobs))
    settle(page)
    drawn(page)
    found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in found] == []
