"""The log of a job: windows by key, search, levels, attempts, times, downloads; and what it costs when it is long."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import factories
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_log

from records.log_pages import HITS, WINDOW, Lines, key_at
from records.models import LogLine

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(project: Any, alice: Any) -> Any:
    job = factories.job(project, alice)
    run_job(job)
    return job


@pytest.fixture
def ask(client: Client, carol: Any, job: Any) -> Any:
    client.force_login(carol)

    def get(**query: Any) -> Any:
        answer = client.get(reverse("job-log-lines", args=[job.project_id, job.pk]), query)
        assert answer["Content-Type"] == "application/json"
        return answer.json() if answer.status_code == 200 else (answer.status_code, answer.json()["error"])

    return get


def fill(job: Any, count: int, attempt: int = 1) -> None:
    """One line a second; every hundredth is a warning."""
    start = timezone.now().replace(microsecond=0) - timedelta(days=30)
    LogLine.objects.bulk_create(
        [
            LogLine(
                subject_kind="job",
                subject_id=job.pk,
                attempt=attempt,
                seq=2 * n,
                level="info" if n % 100 else "warning",
                text=f"line {n} of attempt {attempt}",
                at=start + timedelta(seconds=n + 10**6 * attempt),
            )
            for n in range(1, count + 1)
        ],
        batch_size=10_000,
    )


def numbers(answer: Any) -> list[tuple[int, int]]:
    return [(line[0], line[1] // 2) for line in answer["lines"]]


def test_windows_walk_the_log_in_both_directions_without_a_gap(ask: Any, job: Any):
    fill(job, 700)
    fill(job, 50, attempt=2)
    newest = ask()
    assert len(newest["lines"]) == WINDOW and newest["attempts"] == [1, 2]
    walked = numbers(newest)
    while True:
        first = walked[0]
        before = numbers(ask(before=f"{first[0]}:{2 * first[1]}"))
        if not before:
            break
        walked = before + walked
    assert walked == [(1, n) for n in range(1, 701)] + [(2, n) for n in range(1, 51)]
    assert numbers(ask(after="1:1390")) == [(1, n) for n in range(696, 701)] + [(2, n) for n in range(1, 51)]


def test_levels_and_attempts_are_chosen_by_the_server(ask: Any, job: Any):
    fill(job, 500)
    fill(job, 200, attempt=2)
    assert numbers(ask(level="warning")) == [(1, n) for n in range(100, 501, 100)] + [(2, 100), (2, 200)]
    assert {line[0] for line in ask(attempt="2")["lines"]} == {2}
    assert ask(level="error")["lines"] == []


def test_a_search_finds_the_newest_hits_and_a_hit_opens_in_its_context(ask: Any, job: Any):
    fill(job, 1000)
    hits = ask(q="LINE 77")
    assert numbers(hits)[0] == (1, 779) and numbers(hits)[-1] == (1, 77) and not hits["more"]
    assert len(ask(q="line")["lines"]) == HITS and ask(q="line")["more"]
    assert numbers(ask(q=r"line (5|6)00\M", regex="1")) == [(1, 600), (1, 500)]
    around = ask(around="1:1000")
    assert around["target"] == [1, 1000] and len(around["lines"]) == WINDOW
    assert numbers(around).index((1, 500)) in range(140, 160)


def test_a_search_that_cannot_be_done_says_so(ask: Any, job: Any):
    fill(job, 10)
    status, message = ask(q="(unclosed", regex="1")
    assert status == 400 and "not a regular expression" in message
    assert ask(q="(unclosed")["lines"] == []
    for query in ({"before": "x"}, {"attempt": "-1"}, {"at": "soon"}, {"at": "1e300"}, {"q": "x" * 501}):
        assert ask(**query)[0] == 400


def test_a_search_that_takes_too_long_is_ended(ask: Any, job: Any, monkeypatch: pytest.MonkeyPatch):
    fill(job, 10)
    monkeypatch.setattr("records.log_pages.SECONDS", 0.05)
    rows = Lines.of

    def slow(self: Lines, subject: Any) -> Any:
        return rows(self, subject).extra(where=["pg_sleep(5) is not null"])

    monkeypatch.setattr(Lines, "of", slow)
    status, message = ask(q="line")
    assert status == 400 and "took longer" in message


def test_a_time_leads_to_its_line(ask: Any, job: Any):
    fill(job, 1000)
    fill(job, 30, attempt=2)
    line = LogLine.objects.get(attempt=1, seq=2 * 640)
    assert ask(at=str(line.at.timestamp()))["target"] == [1, 2 * 640]
    assert key_at(("job", job.pk), line.at - timedelta(milliseconds=500)) == (1, 2 * 640)
    assert key_at(("job", job.pk), line.at - timedelta(days=400)) == (1, 2)
    assert key_at(("job", job.pk), line.at + timedelta(days=400)) == (2, 60)
    assert key_at(("job", factories.job(job.project, job.submitted_by).pk), line.at) is None


def test_a_long_line_is_cut_and_says_how_long_it_is(ask: Any, job: Any):
    write_log(job, job.attempts.get(), ["x" * 1_000_000])
    (line,) = ask()["lines"]
    assert len(line[4]) == 8000 and line[5] == 1_000_000


def test_what_is_filtered_is_what_is_downloaded(client: Client, carol: Any, job: Any):
    fill(job, 300)
    client.force_login(carol)
    address = reverse("job-log", args=[job.project_id, job.pk])
    text = b"".join(client.get(address, {"level": "warning", "q": "line"})).decode()
    assert len(text.splitlines()) == 3 and "WARNING line 100" in text
    assert client.get(address, {"q": "(", "regex": "1"}).status_code == 400


def test_a_long_log_costs_as_many_queries_and_rows_as_a_short_one(ask: Any, job: Any):
    fill(job, 400)
    with CaptureQueriesContext(connection) as few:
        ask()
    fill(job, 30_000, attempt=2)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE records_logline")
    with CaptureQueriesContext(connection) as many:
        answer = ask()
    # One more look at the index for one more attempt.
    assert len(many) <= len(few) + 1
    assert len(answer["lines"]) == WINDOW
    assert len(json.dumps(answer)) < 60_000
    rows = LogLine.objects.filter(subject_kind="job", subject_id=job.pk).order_by("-attempt", "-seq")[:WINDOW]
    plan = rows.explain()
    assert "one_line_per_event" in plan and "Sort" not in plan
