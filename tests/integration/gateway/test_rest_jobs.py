"""Jobs over HTTP: submitted once, seen by their own, stopped by those who may."""

from __future__ import annotations

import math
import threading
import time
from datetime import datetime

import factories
import httpx
import pytest
from django.conf import settings as django_settings
from rest_callers import problem

from catalog.services import reward_save
from compute.models import Request
from compute.services import tick
from jobs.attempts import attempt_begin, attempt_started
from jobs.models import Attempt, Job
from jobs.supervision import attempts_claim, journal_take
from trainers.storage import Storage

pytestmark = pytest.mark.django_db


@pytest.fixture
def body(project) -> dict:
    factories.base_model()
    spec = factories.spec(factories.dataset_version(project))
    return {"project": str(project.pk), "spec": spec, "idempotency_key": "key 1"}


@pytest.fixture
def attempt(alice, project) -> Attempt:
    factories.node()
    factories.job(project, alice)
    (grant,) = tick()
    begun = attempt_begin(grant_id=grant)
    assert begun is not None and attempt_started(attempt=begun, pid=1)
    attempts_claim(watcher="me")
    return begun


def metric(seq: int, step: int, value: float = 0.5) -> dict:
    return {
        "seq": seq, "t": 1_800_000_000.0 + seq, "kind": "metric", "step": step,
        "values": {"train/reward": value, "train/loss": 2 * value}, "tokens": 10 * step, "active_s": 1.5 * step,
    }  # fmt: skip


def log(seq: int, text: str) -> dict:
    return {"seq": seq, "t": 1_800_000_000.0 + seq, "kind": "log", "level": "info", "text": text}


STARTED = {"seq": 1, "t": 1_800_000_000.0, "kind": "state", "state": "started", "result": None, "error": None}


def take(attempt: Attempt, *events: dict) -> None:
    journal_take(attempt_id=attempt.pk, watcher="me", events=list(events))


def test_a_submission_becomes_a_job(as_bob, bob, body):
    answer = as_bob.post("/jobs", body)
    assert answer.status_code == 201, answer.content
    shown = answer.json()
    job = Job.objects.get()
    assert (shown["id"], shown["state"], shown["ended"]) == (str(job.pk), "queued", False)
    assert shown["submitted_by"] == bob.email
    assert shown["url"].startswith(django_settings.PUBLIC_URL) and str(job.pk) in shown["url"]
    assert shown["spec"]["hyperparameters"]["learning_rate"] == 2e-4, "defaults are filled in"
    assert shown["actions"] == ["cancel", "pause"]
    assert shown["cost"] == {"total": "0", "currency": "USD"}
    assert datetime.fromisoformat(shown["created_at"]).tzinfo is not None
    assert as_bob.get(f"/jobs/{job.pk}").json() == shown


def test_the_same_key_is_the_same_job(as_bob, body):
    first, again = as_bob.post("/jobs", body), as_bob.post("/jobs", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Job.objects.count() == Request.objects.count() == 1


def test_a_registered_reward_takes_the_place_of_one_in_the_spec(as_bob, alice, project, body):
    version = reward_save(project=project, name="Sums", spec={"components": [{"kind": "exact"}]}, actor=alice)
    del body["spec"]["reward"]
    answer = as_bob.post("/jobs", {**body, "reward": f"reward:{version.reward_id}@1"})
    assert answer.status_code == 201, answer.content
    assert answer.json()["reward"] == f"reward:{version.reward_id}@1"
    assert answer.json()["spec"]["reward"]["components"][0]["kind"] == "exact"
    assert Job.objects.get().reward_version == version


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"hyperparameters": {"learning_rat": 1}}, "hyperparameters.learning_rat", "no such field"),
        ({"hyperparameters": {"learning_rate": 9}}, "hyperparameters.learning_rate", "less than or equal to 1"),
        ({"data": {"source": "math.json"}}, "data.source", "upload a file first"),
        ({"model": {"base": "gpt-17"}}, "model.base", "there is no base model"),
        ({"recipe": "magic"}, "recipe", "'sft', 'grpo', 'ppo_critic'"),
        ({"reward": None}, "reward", "learns from a reward"),
        ({"reward": {"components": [{"kind": "pattern", "pattern": "("}]}}, "reward.components.0.pattern", "regular"),
        ({"name": "x" * 300}, "name", "200 characters"),
        ({"seed": 10**400}, "seed", ""),
    ],
)
def test_a_task_that_cannot_run_is_refused_with_the_path_of_the_field(as_bob, body, change, path, words):
    answer = as_bob.post("/jobs", {**body, "spec": {**body["spec"], **change}})
    assert answer.status_code == 422
    fields = {item["path"]: item["message"] for item in problem(answer)["fields"]}
    assert path in fields, fields
    assert words in fields[path]
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"project": "nope"}, "project"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "x" * 201}, "idempotency_key"),
        ({"spec": []}, "spec"),
        ({"extra": 1}, "extra"),
        ({"reward": "numeric"}, "reward"),
        ({"reward": "reward:00000000-0000-0000-0000-000000000000@1"}, "reward"),
    ],
)
def test_a_submission_that_does_not_fit_is_refused_with_the_path(as_bob, body, change, path):
    answer = as_bob.post("/jobs", {**body, **change})
    assert answer.status_code == 422
    assert [item["path"] for item in problem(answer)["fields"]] == [path]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not fit"),
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"spec": NaN}', "no JSON number"),
        ('{"spec": "\\u0000"}', "NUL character"),
        ('{"spec": {"a": ["\\ud800"]}}', "lone surrogate"),
        ('{"spec": ' + "[" * 100_000, "nested deeper"),
        ('{"spec": ' + "[" * 100 + "]" * 100 + "}", "nested deeper"),
        (b"\xff\xfe{", "is not JSON"),
        ('{"spec": {"seed": ' + "9" * 5000 + "}}", "is not JSON"),
    ],
)
def test_a_body_that_is_no_json_is_refused_in_a_sentence(as_bob, text, words):
    answer = as_bob.post("/jobs", text)
    assert answer.status_code in (400, 422)
    assert words in problem(answer)["message"]


def test_a_body_of_many_megabytes_is_refused(as_bob, body):
    body["spec"]["name"] = "x" * (11 * 2**20)
    answer = as_bob.post("/jobs", body)
    assert answer.status_code == 413
    problem(answer)


def test_a_viewer_may_look_but_not_submit_or_stop(as_carol, alice, project, body):
    job = factories.job(project, alice)
    assert as_carol.get(f"/jobs/{job.pk}").status_code == 200
    for answer in (as_carol.post("/jobs", body), as_carol.post(f"/jobs/{job.pk}/cancel")):
        assert answer.status_code == 403
        assert "role editor" in problem(answer)["message"]
    job.refresh_from_db()
    assert job.state == "queued"


def test_for_a_stranger_there_is_nothing(as_mallory, alice, project, body):
    job = factories.job(project, alice)
    assert as_mallory.get("/jobs").json() == {"items": [], "next": None}
    assert as_mallory.get("/jobs", project=str(project.pk)).json()["items"] == []
    for path in ("", "/events", "/metrics", "/logs", "/report"):
        answer = as_mallory.get(f"/jobs/{job.pk}{path}")
        assert answer.status_code == 404, path
        problem(answer)
    assert as_mallory.post(f"/jobs/{job.pk}/cancel").status_code == 404
    assert as_mallory.post("/jobs", body).status_code == 404
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_foreign_dataset_or_reward_cannot_be_named(as_mallory, mallory, alice, project, body):
    own = mallory.workspaces.get().projects.get()
    version = reward_save(project=project, name="Sums", spec={"components": [{"kind": "exact"}]}, actor=alice)
    del body["spec"]["reward"]
    body |= {"project": str(own.pk), "reward": f"reward:{version.reward_id}@1"}
    assert [item["path"] for item in problem(as_mallory.post("/jobs", body))["fields"]] == ["reward"]
    body["spec"]["reward"] = {"components": [{"kind": "exact"}]}
    del body["reward"]
    assert [item["path"] for item in problem(as_mallory.post("/jobs", body))["fields"]] == ["data.source"]


def test_a_job_is_stopped_and_stopping_it_again_changes_nothing(as_bob, bob, alice, project):
    job = factories.job(project, alice)
    answer = as_bob.post(f"/jobs/{job.pk}/cancel", {"reason": "Wrong data."})
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["ended"]) == ("cancelled", True)
    assert as_bob.post(f"/jobs/{job.pk}/cancel", {"reason": "Again."}).json()["reason"] == "Wrong data."
    assert job.timeline.last().actor == bob


def test_stopping_needs_no_body(as_bob, alice, project):
    job = factories.job(project, alice)
    answer = as_bob.post(f"/jobs/{job.pk}/cancel", "")
    assert answer.json()["state"] == "cancelled", answer.content


def test_listings_come_newest_first_in_pages_without_gap_or_double(as_bob, alice, project):
    made = [str(factories.job(project, alice).pk) for _ in range(5)][::-1]
    seen, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        answer = as_bob.get("/jobs", **params).json()
        seen += [item["id"] for item in answer["items"]]
        cursor = answer["next"]
        if cursor is None:
            break
        factories.job(project, alice)
    assert seen == made


def test_a_listing_is_narrowed_by_state(as_bob, alice, project):
    stopped, waiting = factories.job(project, alice), factories.job(project, alice)
    as_bob.post(f"/jobs/{stopped.pk}/cancel")
    assert [item["id"] for item in as_bob.get("/jobs", state="queued").json()["items"]] == [str(waiting.pk)]
    assert len(as_bob.get("/jobs", state="queued,cancelled").json()["items"]) == 2
    answer = as_bob.get("/jobs", state="sleeping")
    assert answer.status_code == 422
    assert "there is no state 'sleeping'" in problem(answer)["fields"][0]["message"]


@pytest.mark.parametrize("cursor", ["x", "é", "%00", "MjAyNi0wMS0wMXx4", "a" * 199, "a" * 500, "OTk5OTk5OTk5OTk5fA"])
def test_a_cursor_of_ones_own_making_is_refused(as_bob, project, cursor):
    answer = as_bob.get("/jobs", cursor=cursor)
    assert answer.status_code == 422
    assert problem(answer)["fields"][0]["path"] == "cursor"


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"project": "x"}, {"state": "\x00"}])
def test_parameters_out_of_range_are_refused(as_bob, project, params):
    answer = as_bob.get("/jobs", **params)
    assert answer.status_code in (400, 422)
    problem(answer)


def test_a_listing_asks_the_database_a_fixed_number_of_questions(as_bob, alice, project, django_assert_max_num_queries):
    for _ in range(6):
        factories.job(project, alice)
    with django_assert_max_num_queries(6):
        assert len(as_bob.get("/jobs").json()["items"]) == 6


def test_metrics_are_given_step_by_step_with_what_is_no_number_by_name(as_bob, attempt):
    take(attempt, STARTED, metric(2, 1), metric(3, 2, math.nan), metric(4, 3, -math.inf))
    metrics = as_bob.get(f"/jobs/{attempt.job_id}/metrics").json()["metrics"]
    assert metrics["train/reward"] == [[1, 0.5, 1.5, 10], [2, "NaN", 3.0, 20], [3, "-Infinity", 4.5, 30]]
    only = as_bob.get(f"/jobs/{attempt.job_id}/metrics", keys="train/loss,nope").json()["metrics"]
    assert list(only) == ["train/loss"]
    latest = as_bob.get(f"/jobs/{attempt.job_id}").json()["latest"]
    assert latest["train/reward"] == {"step": 3, "value": "-Infinity"}


def test_log_lines_come_oldest_first_however_hostile(as_bob, attempt):
    take(attempt, STARTED, log(2, "first"), log(3, "<script>\x1b[31m"), log(4, "last"))
    lines = as_bob.get(f"/jobs/{attempt.job_id}/logs", lines=2).json()["items"]
    assert [line["text"] for line in lines][-1] == "last"
    assert [line["seq"] for line in lines] == [3, 4]


def test_events_go_on_from_a_cursor_without_gap_or_double(as_bob, attempt):
    path = f"/jobs/{attempt.job_id}/events"
    take(attempt, STARTED, metric(2, 1), log(3, "one"))
    first = as_bob.get(path).json()
    assert [(event["seq"], event["kind"]) for event in first["events"]] == [(2, "metric"), (3, "log")]
    assert first["events"][0]["values"] == {"train/reward": 0.5, "train/loss": 1.0}
    assert [entry["to_state"] for entry in first["timeline"]][:2] == ["queued", "placing"]
    assert as_bob.get(path, after=first["cursor"]).json()["events"] == []
    take(attempt, metric(4, 2), metric(5, 3), metric(6, 4))
    second = as_bob.get(path, after=first["cursor"], limit=2).json()
    assert [event["seq"] for event in second["events"]] == [4, 5]
    assert second["more"]
    third = as_bob.get(path, after=second["cursor"], limit=2).json()
    assert [event["seq"] for event in third["events"]] == [6]
    assert not third["more"]
    assert as_bob.get(f"/jobs/{attempt.job_id}").json()["cursor"] == third["cursor"]


@pytest.mark.parametrize("after", ["x", "1", "1:x", "1:" + "9" * 30, "-1:0", "1:2:3", "\x00"])
def test_an_event_cursor_of_ones_own_making_is_refused(as_bob, attempt, after):
    answer = as_bob.get(f"/jobs/{attempt.job_id}/events", after=after)
    assert answer.status_code in (400, 422)
    problem(answer)


def test_the_report_is_sent_as_a_file_that_cannot_act_as_this_site(as_bob, alice, project):
    job = factories.job(project, alice)
    assert as_bob.get(f"/jobs/{job.pk}/report").status_code == 404
    Storage(django_settings.STORAGE_URL).put_bytes("reports/x.html", b"<script>alert(1)</script>")
    Job.objects.filter(pk=job.pk).update(report_key="reports/x.html")
    answer = as_bob.get(f"/jobs/{job.pk}/report")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_is_answered_when_something_happens(server, as_bob, attempt):
    take(attempt, STARTED)
    cursor = as_bob.get(f"/jobs/{attempt.job_id}").json()["cursor"]
    answers: list[tuple[float, dict]] = []

    def ask() -> None:
        begun = time.monotonic()
        params = {"after": cursor, "wait": 20}
        headers = {"Authorization": f"Bearer {as_bob.key}"}
        url = f"{server}/api/v1/jobs/{attempt.job_id}/events"
        answer = httpx.get(url, params=params, headers=headers, timeout=30, trust_env=False)
        answers.append((time.monotonic() - begun, answer.json()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(1.5)
    assert thread.is_alive(), "it waits while nothing happens"
    take(attempt, metric(2, 1))
    thread.join(10)
    assert not thread.is_alive()
    waited, answer = answers[0]
    assert [event["seq"] for event in answer["events"]] == [2]
    assert waited < 10


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_comes_back_empty_when_its_time_is_up(server, as_bob, attempt):
    take(attempt, STARTED)
    shown = as_bob.get(f"/jobs/{attempt.job_id}").json()
    answer = as_bob.get(f"/jobs/{attempt.job_id}/events", after=shown["cursor"], wait=1).json()
    assert (answer["events"], answer["cursor"]) == ([], shown["cursor"])
    known = as_bob.get(f"/jobs/{attempt.job_id}/events", after=shown["cursor"], wait=20, state="queued").json()
    assert known["state"] == shown["state"] != "queued", "another state than the known one is news"
