"""The live job page in a real browser: every point arrives once, and nothing a person did is undone by an update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import factories
import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from job_rows import run_job, write_log, write_points, write_rollouts
from job_site import aside, curves, serving, settle, until

from jobs.hints import send
from jobs.models import Attempt, Job
from jobs.services import job_cancel, job_transition
from jobs.states import State
from workspaces.models import Membership

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
REWARD = '.chart[data-key="train/reward"]'


@pytest.fixture
def site() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def attempt(project: Any, alice: Any) -> Attempt:
    factories.node()
    job = factories.job(project, alice, name="sums-grpo")
    attempt = run_job(job, steps=1000)
    write_points(job, attempt, curves(30))
    return attempt


@pytest.fixture
def opened(visit: Any, alice: Any, site: str, attempt: Attempt) -> Callable[..., Any]:
    def start(query: str = "", **options: Any) -> Any:
        window = visit(alice, url=site, **options)
        window.open(address(attempt.job) + query)
        settle(window.page)
        return window

    return start


def address(job: Job) -> str:
    return reverse("job", args=[job.project_id, job.pk])


def publish(attempt: Attempt, values: dict[str, list[float]], first_step: int) -> None:
    """New points, stored and hinted at as supervision does."""

    def store() -> None:
        write_points(attempt.job, attempt, values, first_step=first_step)
        send(attempt.job_id, f"{attempt.number}:{attempt.cursor}")

    aside(store)


def steps_shown(page: Any, key: str = "train/reward") -> list[int]:
    return page.evaluate("(key) => window.tuneyard.job.store.get(key)?.points.map((point) => point.step) ?? []", key)


def status(page: Any) -> str:
    return page.locator("#live-badge").get_attribute("data-status")


def test_a_new_point_appears_by_itself(opened, attempt):
    window = opened()
    page = window.page
    until(page, lambda: status(page) == "live")
    publish(attempt, {"train/reward": [0.777]}, 31)
    page.get_by_text("0.777").first.wait_for()
    assert steps_shown(page) == list(range(1, 32))
    drawn = page.evaluate(f"document.querySelector('{REWARD} .chart-plot').data.at(-1).y.length")
    assert drawn == 31, "the drawing changed too"
    assert window.problems == []


def test_a_second_tab_and_a_reload_have_the_same_points(opened, attempt):
    first, second = opened().page, opened().page
    publish(attempt, {"train/reward": [0.5] * 20}, 31)
    everything = list(range(1, 51))
    for page in (first, second):
        until(page, lambda page=page: steps_shown(page) == everything)
    first.reload()
    settle(first)
    assert steps_shown(first) == everything


def test_a_server_that_was_gone_for_a_while_costs_no_point(visit, alice, attempt):
    with serving() as url:
        port = int(url.rpartition(":")[2])
        page = visit(alice, url=url).open(address(attempt.job))
        settle(page)
        until(page, lambda: status(page) == "live")
    until(page, lambda: status(page) == "reconnecting")
    assert "reconnecting; last heard" in page.locator("#live-badge").inner_text()
    publish(attempt, {"train/reward": [0.5] * 40}, 31)
    with serving(port):
        until(page, lambda: status(page) == "live", 40)
        until(page, lambda: len(steps_shown(page)) >= 70)
        assert steps_shown(page) == list(range(1, 71)), "none is lost, none is doubled, and all are in order"


def test_without_a_socket_the_page_asks(visit, alice, site, attempt):
    window = visit(alice, url=site)
    window.page.add_init_script("window.WebSocket = class { constructor() { throw new Error('no sockets here'); } };")
    page = window.open(address(attempt.job))
    settle(page)
    assert "live, by asking" in page.locator("#live-badge").inner_text()
    write_points(attempt.job, attempt, {"train/reward": [0.5]}, first_step=31)
    until(page, lambda: len(steps_shown(page)) == 31)


def test_a_socket_that_falls_silent_is_noticed(visit, alice, site, attempt):
    window = visit(alice, url=site)
    window.page.add_init_script(
        "setInterval = ((real) => (call, ms, ...rest) => real(call, ms === 5000 ? 100 : ms, ...rest))(setInterval);"
        "window.sockets = [];"
        "window.WebSocket = class extends WebSocket {"
        "  constructor(...all) { super(...all); window.sockets.push(this); }"
        "  send(text) { if (!window.silent) super.send(text); } };"
    )
    page = window.open(address(attempt.job))
    settle(page)
    until(page, lambda: status(page) == "live")
    page.evaluate("window.silent = true")
    until(page, lambda: page.evaluate("window.sockets.length") > 1)
    page.evaluate("window.silent = false")
    until(page, lambda: status(page) == "live")


def test_what_happened_between_the_page_and_the_socket_is_there(visit, alice, site, attempt):
    window = visit(alice, url=site)
    page = window.page
    page.route("**/updates/**", lambda route: (publish_once(), route.continue_()))
    done = []

    def publish_once() -> None:
        if not done:
            done.append(True)
            write_points(attempt.job, attempt, {"train/reward": [0.5] * 5}, first_step=31)

    window.open(address(attempt.job))
    settle(page)
    until(page, lambda: len(steps_shown(page)) == 35)


def test_an_update_leaves_zoom_and_smoothing_alone(opened, attempt):
    page = opened(size=(1280, 500)).page
    plot = page.locator(f"{REWARD} .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    ranges = f"(() => {{ const l = document.querySelector('{REWARD} .chart-plot').layout; return l.xaxis.range; }})()"
    until(page, lambda: page.evaluate(ranges)[0] > 3)
    zoomed = page.evaluate(ranges)
    page.locator("[name=smooth]").fill("0.9")
    publish(attempt, {key: values[:1] * 100 for key, values in curves(10).items()}, 31)
    until(page, lambda: len(steps_shown(page)) == 130)
    page.wait_for_timeout(100)
    assert page.evaluate(ranges) == zoomed
    assert page.locator("[name=smooth]").input_value() == "0.9"
    # And over a way out of sight and back.
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    until(page, lambda: page.locator(f"{REWARD} .main-svg").count() == 0)
    page.evaluate("window.scrollTo(0, 0)")
    until(page, lambda: page.locator(f"{REWARD} .main-svg").count() > 0)
    assert page.evaluate(ranges) == pytest.approx(zoomed)


def test_tab_and_toolbar_are_in_the_address(opened, attempt):
    page = opened().page
    page.locator("[name=x]").select_option("tokens")
    page.locator("[name=smooth]").fill("0")
    page.locator("[name=log]").check()
    page.get_by_role("link", name="Timeline").click()
    page.reload()
    settle(page)
    assert page.locator('[data-panel="timeline"]').is_visible()
    page.get_by_role("link", name="Charts").click()
    assert page.locator("[name=x]").input_value() == "tokens"
    assert page.locator("[name=log]").is_checked()
    xs = page.evaluate(f"document.querySelector('{REWARD} .chart-plot').data[0].x.slice(0, 2)")
    assert xs == [100, 200]


@pytest.mark.parametrize(("axis", "second"), [("step", 2), ("wall", None), ("active", 2 / 60), ("tokens", 200)])
def test_every_x_axis_has_its_data(opened, attempt, axis, second):
    page = opened(f"?x={axis}&smooth=0").page
    xs = page.evaluate(f"document.querySelector('{REWARD} .chart-plot').data[0].x")
    assert len(xs) == 30 and xs == sorted(xs)
    if second is not None:
        assert xs[1] == pytest.approx(second)


def test_a_restart_overwrites_the_steps_it_runs_again(opened, attempt):
    page = opened().page
    second = aside(lambda: run_job(attempt.job, number=2))
    publish(second, {"train/reward": [9.0] * 5}, 21)
    until(page, lambda: len(steps_shown(page)) == 25)
    assert steps_shown(page) == list(range(1, 26))
    page.locator(REWARD).get_by_text("restart").wait_for()


def test_values_that_are_no_numbers_are_gaps_and_counted(opened, attempt):
    page = opened().page
    publish(attempt, {"train/kl": [float("nan"), float("inf"), float("-inf"), 0.0, -1.0]}, 31)
    card = page.locator('.chart[data-key="train/kl"]')
    card.get_by_text("4 not finite").wait_for()
    page.locator("[name=log]").check()
    card.get_by_text("at or below 0").wait_for()


def test_hundreds_of_metrics_mount_few_charts(opened, attempt):
    many = {f"train/layer_{number}": [0.1, 0.2] for number in range(500)}
    write_points(attempt.job, attempt, many, first_step=31)
    page = opened().page
    assert page.locator(".chart[data-key]").count() > 500
    assert 0 < page.locator(".chart .main-svg:first-child").count() < 20
    page.evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
    page.wait_for_timeout(300)
    assert 0 < page.locator(".chart .main-svg:first-child").count() < 20


def test_a_wrong_clock_in_the_browser_changes_nothing(visit, alice, site, attempt):
    window = visit(alice, url=site)
    day = 24 * 3600 * 1000
    window.page.add_init_script(f"Date.now = ((real) => () => real() + {day})(Date.now);")
    page = window.open(address(attempt.job))
    settle(page)
    text = page.locator("#live-badge").inner_text()
    assert "d " not in text and ("min" in text or "m " in text or "s ago" in text)
    assert "just now" in page.locator(".job-facts").inner_text()


def test_the_state_changes_without_a_reload(opened, attempt):
    page = opened().page
    aside(
        lambda: job_transition(job_id=attempt.job_id, to=State.FAILED, reason="The loss became NaN.", advice="Do that.")
    )
    page.get_by_text("The loss became NaN.").first.wait_for()
    assert page.locator("#job-head .state").inner_text() == "Failed"
    until(page, lambda: page.title().startswith("Failed"))
    until(page, lambda: status(page) == "ended")


def test_cancel_asks_first_and_then_does_it(opened, attempt):
    page = opened().page
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Cancel job").first.click()
    dialog = page.locator("#cancel-dialog")
    dialog.get_by_role("button", name="Keep running").click()
    assert not dialog.is_visible()
    assert Job.objects.get().state == State.RUNNING
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("button", name="Cancel job").first.click()
    dialog.get_by_label("Why").fill("wrong data")
    dialog.get_by_role("button", name="Cancel job").click()
    page.get_by_text("wrong data").first.wait_for()
    assert Job.objects.get().state == State.CANCELLING


def test_the_log_follows_until_someone_scrolls_up(opened, attempt):
    write_log(attempt.job, attempt, [f"line {number}" for number in range(200)])
    page = opened("?tab=log").page
    lines = page.locator("[data-log-lines]")
    assert lines.evaluate("(box) => box.scrollHeight - box.scrollTop - box.clientHeight") < 30

    def more(text: str) -> None:
        aside(lambda: (write_log(attempt.job, attempt, [text]), send(attempt.job_id)))
        lines.get_by_text(text, exact=True).wait_for(state="attached")

    more("one more")
    assert lines.evaluate("(box) => box.scrollHeight - box.scrollTop - box.clientHeight") < 30
    lines.evaluate("(box) => { box.scrollTop = 0; }")
    page.get_by_role("button", name="Follow the end").wait_for()
    more("and another")
    assert lines.evaluate("(box) => box.scrollTop") == 0
    page.get_by_role("button", name="Follow the end").click()
    assert lines.evaluate("(box) => box.scrollHeight - box.scrollTop - box.clientHeight") < 30


def test_hostile_text_stays_text(opened, attempt):
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    write_log(attempt.job, attempt, [hostile, "\x1b[31mred\x1b[0m", " 10%\r100%"])
    write_rollouts(
        attempt.job, attempt, step=30, prompt=hostile, completion=hostile, answer=hostile, parts={hostile: 1.0}
    )
    write_points(attempt.job, attempt, {f"reward/{hostile}": [1.0]}, first_step=31)
    window = opened("?tab=log")
    page = window.page
    lines = page.locator(".log-text").all_inner_texts()
    assert lines[-3:] == [hostile, "red", "100%"]
    page.get_by_role("link", name="Rollouts").click()
    page.locator("#rollouts .sample").first.wait_for()
    assert page.locator("#rollouts .sample .verbatim").first.inner_text() == hostile
    page.get_by_role("link", name="Charts").click()
    assert "owned" not in page.title()
    assert page.locator("main img").count() == 0
    assert window.problems == []


def test_the_chosen_rollouts_stay_while_new_ones_come(opened, attempt):
    write_rollouts(attempt.job, attempt, step=1)
    write_rollouts(attempt.job, attempt, step=2)
    page = opened("?tab=rollouts").page
    page.locator("#rollouts select[name=at]").select_option("1/train")
    page.locator("#rollouts").get_by_text("step 1").first.wait_for(state="attached")
    until(page, lambda: page.locator("#rollouts").get_attribute("data-rollouts-follow") == "no")
    newest = page.evaluate("window.tuneyard.job.newestRollouts")
    aside(lambda: (write_rollouts(attempt.job, attempt, step=3), send(attempt.job_id)))
    until(page, lambda: page.evaluate("window.tuneyard.job.newestRollouts") not in ("", newest))
    page.wait_for_timeout(200)
    assert page.locator("#rollouts select[name=at]").input_value() == "1/train"


def test_a_removed_member_is_told(visit, bob, site, attempt):
    page = visit(bob, url=site).open(address(attempt.job))
    settle(page)
    Membership.objects.filter(user=bob).delete()
    aside(lambda: send(attempt.job_id))
    until(page, lambda: status(page) == "gone")
    page.get_by_text("no longer there, or no longer yours").wait_for()


def test_an_ended_session_is_told(opened, attempt):
    page = opened().page
    Session.objects.all().delete()
    aside(lambda: send(attempt.job_id))
    until(page, lambda: status(page) == "signed-out")


def test_a_cancelled_job_is_final(opened, attempt, alice):
    page = opened().page
    aside(lambda: job_cancel(job=attempt.job, actor=alice))
    until(page, lambda: page.locator("#job-head .state").inner_text() == "Cancelling")
    assert status(page) in ("live", "polling"), "what comes while it is being cancelled is still followed"
