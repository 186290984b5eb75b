"""The page of a job in each of its states, its parts, and what programs in it ask for."""

from __future__ import annotations

import json
import math

import factories
import pytest
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_log, write_points, write_rollouts

from compute.models import Request
from jobs.models import Job
from jobs.services import job_cancel
from jobs.states import TABLE, State

pytestmark = pytest.mark.django_db
HOSTILE = "</script><script>alert(1)</script>"
PARTS = ("job", "job-parts", "job-updates", "job-rollouts", "job-log", "job-report", "job-cancel")


@pytest.fixture
def at(job):
    return lambda name="job": reverse(name, args=[job.project_id, job.pk])


def page_of(client, address) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("state", list(State))
def test_it_shows_every_state(as_alice, at, job, state):
    attempt = run_job(job)
    write_log(job, attempt, ["one line"])
    Job.objects.filter(pk=job.pk).update(
        state=state, reason="Because of this.", advice="Do that.", ended_at=timezone.now(), started_at=timezone.now()
    )
    page = page_of(as_alice, at())
    row = TABLE[state]
    assert row.label in page and f"tone-{row.tone}" in page
    assert ('data-dialog="cancel-dialog"' in page) == ("cancel" in row.actions)


def test_a_waiting_job_says_why_and_where_it_stands(as_alice, at, job):
    Request.objects.filter(holder_id=job.pk).update(why="Needs 8 reserved GPUs, 2 free now.", position=3)
    page = page_of(as_alice, at())
    assert "Needs 8 reserved GPUs" in page and "position 3" in page


def test_a_failed_job_says_what_happened_and_what_to_do(as_alice, at, job):
    attempt = run_job(job)
    write_log(job, attempt, ["loading", "Traceback: it broke"], level="error")
    Job.objects.filter(pk=job.pk).update(
        state="failed", reason="The loss became NaN.", advice="Lower the learning rate."
    )
    page = page_of(as_alice, at())
    assert "The loss became NaN." in page and "Lower the learning rate." in page
    assert "Traceback: it broke" in page
    assert f"?copy={job.pk}" in page


def test_a_finished_job_shows_before_and_after(as_alice, at, job):
    result = {
        "before": {"accuracy": 0.25, "reward": 0.3},
        "after": {"accuracy": 0.97, "reward": 1.1},
        "eval_prompts": 64,
    }
    Job.objects.filter(pk=job.pk).update(state="succeeded", result=result, report_key="reports/x.html")
    page = page_of(as_alice, at())
    assert "25.0 %" in page and "97.0 %" in page
    assert at("job-report") in page


@pytest.mark.parametrize("tab", ["charts", "rollouts", "log", "timeline", "cost", "config", "nonsense"])
def test_the_open_tab_is_in_the_address(as_alice, at, tab):
    page = page_of(as_alice, f"{at()}?tab={tab}")
    shown = "charts" if tab == "nonsense" else tab
    assert page.count('data-tab="' + shown + '" aria-current="page"') == 1
    assert page.count('aria-current="page"') >= 1


def test_names_and_logs_of_strangers_are_text(as_alice, project, alice):
    factories.node()
    job = factories.job(project, alice, name=HOSTILE)
    attempt = run_job(job)
    write_log(job, attempt, [HOSTILE])
    write_rollouts(job, attempt, step=1, prompt=HOSTILE, completion=HOSTILE, answer=HOSTILE, parts={HOSTILE: 1.0})
    Job.objects.filter(pk=job.pk).update(state="failed", reason=HOSTILE, advice=HOSTILE)
    for name in ("job", "job-parts", "job-rollouts", "job-cancel"):
        assert "<script>alert" not in page_of(as_alice, reverse(name, args=[project.pk, job.pk])), name


class TestUpdates:
    def test_it_gives_everything_then_only_what_is_new(self, as_alice, at, job):
        attempt = run_job(job)
        write_points(job, attempt, {"train/reward": [0.1, 0.2]})
        first = as_alice.get(at("job-updates")).json()
        assert [point[2:4] for point in first["metrics"]["train/reward"]] == [[1, 0.1], [2, 0.2]]
        write_points(job, attempt, {"train/reward": [0.3]}, first_step=3)
        second = as_alice.get(at("job-updates"), {"after": first["cursor"]}).json()
        assert [point[2:4] for point in second["metrics"]["train/reward"]] == [[3, 0.3]]
        assert second["job"]["state"] == "running" and not second["more"]

    def test_what_json_lacks_comes_by_its_name(self, as_alice, at, job):
        write_points(job, run_job(job), {"train/kl": [math.nan, math.inf, -math.inf, 0.0]})
        answer = as_alice.get(at("job-updates"))
        text = json.loads(answer.content, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert [point[3] for point in text["metrics"]["train/kl"]] == ["NaN", "Infinity", "-Infinity", 0.0]

    def test_a_bad_cursor_is_refused(self, as_alice, at):
        answer = as_alice.get(at("job-updates"), {"after": "yesterday"})
        assert answer.status_code == 400 and "cursor" in answer.json()["error"]

    def test_it_is_never_cached(self, as_alice, at):
        assert as_alice.get(at("job-updates"))["Cache-Control"] == "no-store"


class TestRollouts:
    @pytest.fixture
    def filled(self, job):
        attempt = run_job(job)
        write_rollouts(job, attempt, step=1)
        write_rollouts(job, attempt, step=2)
        write_rollouts(job, attempt, step=2_000, phase="eval", groups=1)
        return job

    def test_the_newest_step_is_shown_unless_another_is_chosen(self, as_alice, at, filled):
        assert "the newest step (2000, held-out)" in " ".join(page_of(as_alice, at("job-rollouts")).split())
        context = as_alice.get(at("job-rollouts"), {"at": "1/train"}).context["rollouts"]
        assert (context.step, context.phase, context.newest) == (1, "train", False)
        assert context.previous is None and context.following["at"] == "2/train"

    @pytest.mark.parametrize(("sort", "first"), [("reward", 1.0), ("worst", 0.0), ("nonsense", 1.0)])
    def test_samples_are_sorted_by_reward(self, as_alice, at, filled, sort, first):
        group = as_alice.get(at("job-rollouts"), {"at": "1/train", "sort": sort}).context["rollouts"].groups[0]
        assert group.samples[0]["reward"] == first
        assert len(group.samples) == 4

    def test_a_reward_that_is_no_number_goes_to_the_end(self, as_alice, at, job):
        attempt = run_job(job)
        write_rollouts(job, attempt, step=1, groups=1, size=2)
        write_rollouts(job, attempt, step=3, groups=1, size=1, reward=math.nan)
        page = page_of(as_alice, at("job-rollouts"))
        assert "NaN" in page

    def test_nonsense_in_the_address_breaks_nothing(self, as_alice, at, filled):
        for query in ({"at": "x"}, {"page": "-1"}, {"page": "99999"}, {"page": "9" * 40}, {"sort": "<script>"}):
            assert as_alice.get(at("job-rollouts"), query).status_code == 200

    def test_the_strip_shows_best_and_worst(self, as_alice, at, filled):
        page = page_of(as_alice, at("job-rollouts") + "?view=strip")
        assert "best" in page and "worst" in page and "<form" not in page

    def test_a_job_without_samples_has_none(self, as_alice, at):
        assert page_of(as_alice, at("job-rollouts")).strip() == ""
        assert page_of(as_alice, at("job-rollouts") + "?view=strip").strip() == ""


class TestLog:
    def test_the_whole_log_comes_as_a_file(self, as_alice, at, job):
        write_log(job, run_job(job), ["first", "zweite Zeile", "第三行"])
        answer = as_alice.get(at("job-log"))
        text = b"".join(answer).decode()
        assert [line.split("INFO ")[1] for line in text.splitlines()] == ["first", "zweite Zeile", "第三行"]
        assert "attachment" in answer["Content-Disposition"]
        assert answer["Content-Type"] == "text/plain; charset=utf-8"


class TestCancel:
    def test_asking_changes_nothing(self, as_alice, at, job):
        page = page_of(as_alice, at("job-cancel"))
        assert "Keep running" in page and "Cancel job" in page
        job.refresh_from_db()
        assert job.state == "queued"

    def test_it_cancels_with_the_reason_in_the_timeline(self, as_alice, at, job, alice):
        answer = as_alice.post(at("job-cancel"), {"reason": "wrong data"})
        assert answer.status_code == 302 and answer.url == at()
        job.refresh_from_db()
        assert job.state == "cancelled"
        page = page_of(as_alice, f"{at()}?tab=timeline")
        assert "wrong data" in page and str(alice) in page

    def test_twice_is_once(self, as_alice, at, job):
        as_alice.post(at("job-cancel"))
        assert as_alice.post(at("job-cancel")).status_code == 302
        assert job.timeline.filter(to_state="cancelled").count() == 1

    def test_a_viewer_may_look_but_not_cancel(self, client, carol, at, job):
        client.force_login(carol)
        assert "cancel-dialog" not in page_of(client, at())
        assert client.post(at("job-cancel")).status_code == 403
        job.refresh_from_db()
        assert job.state == "queued"


class TestReport:
    def test_it_runs_walled_off(self, as_alice, at, job, monkeypatch):
        monkeypatch.setattr("jobs.views.report_bytes", lambda job: b"<h1>Report</h1>")
        answer = as_alice.get(at("job-report"))
        policy = answer["Content-Security-Policy"]
        assert policy.startswith("sandbox ") and "allow-same-origin" not in policy
        assert "default-src 'none'" in policy
        assert "attachment" in as_alice.get(at("job-report") + "?download")["Content-Disposition"]

    def test_a_job_without_a_report_has_none(self, as_alice, at):
        assert as_alice.get(at("job-report")).status_code == 404


class TestDoor:
    @pytest.mark.parametrize("name", PARTS)
    def test_a_stranger_finds_nothing(self, client, mallory, at, name):
        client.force_login(mallory)
        assert client.get(at(name)).status_code == 404
        assert client.post(at(name)).status_code in (404, 405)

    @pytest.mark.parametrize("name", PARTS)
    def test_nobody_is_asked_to_sign_in(self, client, at, name):
        answer = client.get(at(name))
        assert answer.status_code == 302 and "sign-in" in answer.url

    def test_a_job_is_not_found_under_another_project(self, as_alice, job, workspace):
        other = type(job.project).objects.create(workspace=workspace, name="other")
        for name in PARTS:
            assert as_alice.get(reverse(name, args=[other.pk, job.pk])).status_code == 404, name

    def test_the_short_address_leads_to_the_page(self, as_alice, client, job, mallory, at):
        short = reverse("job", args=[job.pk])
        assert as_alice.get(short).url == at()
        client.force_login(mallory)
        assert client.get(short).status_code == 404

    def test_reading_changes_nothing(self, as_alice, at, job):
        before = Job.objects.values().get(pk=job.pk)
        for name in PARTS:
            as_alice.get(at(name))
        assert Job.objects.values().get(pk=job.pk) == before


def test_the_parts_follow_the_state(as_alice, at, job, alice):
    job_cancel(job=job, actor=alice, reason="enough")
    page = page_of(as_alice, at("job-parts"))
    parts = ("job-head", "job-outcome", "job-timeline", "job-bill", "job-checkpoints", "job-attempts", "resume-parts")
    for part in parts:
        assert f'id="{part}"' in page
    assert page.count('hx-swap-oob="true"') == len(parts)
    assert "enough" in page
