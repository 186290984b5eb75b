"""A journal's way into Postgres: each event once, in order, by one supervisor."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import factories
import pytest
from django.test import TestCase
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.models import Checkpoint
from compute.services import tick
from delivery.models import Message
from jobs.attempts import attempt_begin, attempt_reported_end, attempt_started
from jobs.models import Attempt
from jobs.selectors import updates_after
from jobs.supervision import (
    JournalGap,
    Superseded,
    attempt_answered,
    attempt_watched,
    attempts_claim,
    attempts_release,
    journal_take,
)
from records.models import LogLine, MetricPoint, Rollout, Series

pytestmark = pytest.mark.django_db
ME = "me"


@pytest.fixture
def attempt(alice, project) -> Attempt:
    factories.node()
    factories.job(project, alice)
    (grant,) = tick()
    begun = attempt_begin(grant_id=grant)
    assert begun is not None and attempt_started(attempt=begun, pid=1)
    assert attempts_claim(watcher=ME) == [begun.pk]
    return Attempt.objects.get(pk=begun.pk)


def metric(seq: int, step: int, value: float = 0.5) -> dict:
    return {
        "seq": seq, "t": 1_800_000_000.0 + seq, "kind": "metric", "step": step,
        "values": {"train/reward": value, "train/loss": -value}, "tokens": 10 * step, "active_s": 1.5 * step,
    }  # fmt: skip


def state(seq: int, name: str, **fields) -> dict:
    return {"seq": seq, "t": 1_800_000_000.0, "kind": "state", "state": name, "result": None, "error": None} | fields


def take(attempt: Attempt, events: list[dict]) -> int:
    return journal_take(attempt_id=attempt.pk, watcher=ME, events=events)


def test_it_stores_points_rollouts_log_and_progress_with_the_cursor(attempt):
    cursor = take(
        attempt,
        [
            state(1, "started"),
            metric(2, 1),
            {"seq": 3, "t": 1.0, "kind": "log", "level": "info", "text": "nul \x00 and half \ud800"},
            {"seq": 4, "t": 1.0, "kind": "rollout", "step": 1, "phase": "train", "group": 0, "index": 1,
             "prompt": "1+1", "completion": "<script>", "answer": "2", "reward": math.nan, "parts": {"numeric": 1.0},
             "accurate": True, "tokens": 3, "truncated": False, "prompt_key": "k", "greedy": False},
            {"seq": 5, "t": 1.0, "kind": "progress", "step": 1, "total_steps": 4, "phase": "training",
             "fraction": 0.25, "eta_s": 9.0},
        ],
    )  # fmt: skip
    assert cursor == 5
    attempt.refresh_from_db()
    job = attempt.job
    assert (attempt.cursor, job.state, job.step, job.total_steps, job.fraction) == (5, "running", 1, 4, 0.25)
    assert MetricPoint.objects.count() == 2 and Series.objects.get(key="train/reward").last_value == 0.5
    assert "\x00" not in LogLine.objects.get().text
    assert Rollout.objects.get().completion == "<script>"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 30), max_size=6), repeats=st.integers(0, 3))
def test_however_it_is_cut_and_repeated_each_event_is_stored_once(attempt, cuts, repeats):
    from django.db import transaction

    events = [metric(seq, seq) for seq in range(1, 31)]
    with transaction.atomic():
        edges = [0, *sorted(cuts), 30]
        for start, end in pairwise(edges):
            for _ in range(repeats + 1):
                take(attempt, events[max(start - 4, 0) : end])
        points = MetricPoint.objects.filter(series__key="train/loss").order_by("seq")
        assert list(points.values_list("step", flat=True)) == list(range(1, 31))
        assert set(Series.objects.values_list("points", flat=True)) == {30}
        transaction.set_rollback(True)


def test_a_gap_is_refused_and_nothing_is_stored(attempt):
    take(attempt, [metric(1, 1)])
    with pytest.raises(JournalGap, match="expected event 2"):
        take(attempt, [metric(3, 3)])
    assert MetricPoint.objects.count() == 2
    attempt.refresh_from_db()
    assert attempt.cursor == 1


def test_a_supervisor_that_lost_its_claim_writes_nothing(attempt):
    attempts_release(watcher=ME)
    assert attempts_claim(watcher="other") == [attempt.pk]
    with pytest.raises(Superseded):
        take(attempt, [metric(1, 1)])
    with pytest.raises(Superseded):
        attempt_watched(attempt_id=attempt.pk, watcher=ME)
    with pytest.raises(Superseded):
        attempt_answered(attempt=attempt, watcher=ME)
    assert not MetricPoint.objects.exists()


def test_two_supervisors_share_and_do_not_fight(attempt):
    assert attempts_claim(watcher="other") == []
    assert attempts_claim(watcher=ME) == [attempt.pk]


def test_a_claim_that_is_not_renewed_falls_to_another(attempt):
    Attempt.objects.update(watched_until=timezone.now() - timedelta(seconds=1))
    assert attempts_claim(watcher="other") == [attempt.pk]


def test_a_final_checkpoint_becomes_a_row_once(attempt):
    event = {"seq": 1, "t": 1.0, "kind": "checkpoint", "step": 4, "final": True, "name": "final", "uri": "x/final",
             "files": [{"name": "a", "size": 7, "sha256": "0" * 64}], "format": "peft"}  # fmt: skip
    take(attempt, [event])
    assert Checkpoint.objects.get().size == 7


def test_only_the_newest_checkpoints_are_kept_and_the_final_one_always(attempt, settings, tmp_path):
    from trainers.storage import Storage

    settings.STORAGE_URL = f"file://{tmp_path}"
    storage = Storage(settings.STORAGE_URL)
    for seq, step in enumerate(range(1, 7), start=1):
        storage.put_bytes(f"c/{step}/a", b"x")
        event = {"seq": seq, "t": 1.0, "kind": "checkpoint", "step": step, "final": step == 6, "format": "peft"}
        event |= {"name": f"step-{step}", "uri": f"c/{step}", "files": [{"name": "a", "size": 1, "sha256": "0" * 64}]}
        with TestCase.captureOnCommitCallbacks(execute=True):
            take(attempt, [event])
    assert sorted(Checkpoint.objects.values_list("step", flat=True)) == [3, 4, 5, 6]
    assert sorted(storage.list("c")) == [f"c/{step}/a" for step in (3, 4, 5, 6)]


def test_success_goes_to_finishing_with_the_bill_settled(attempt):
    result = {"before": {"accuracy": 0.1}, "after": {"accuracy": 0.9}}
    take(attempt, [state(1, "started"), state(2, "succeeded", result=result)])
    attempt.refresh_from_db()
    assert attempt.report["state"] == "succeeded"
    attempt_reported_end(attempt=attempt, report=attempt.report)
    attempt.job.refresh_from_db()
    assert attempt.job.state == "finishing" and attempt.job.result == result
    attempt_reported_end(attempt=attempt, report=attempt.report)
    assert attempt.job.timeline.filter(to_state="finishing").count() == 1


def test_a_failure_says_what_and_what_to_do_and_mails_once(attempt, alice):
    error = {"kind": "bad_data", "message": "line 7 has no answer", "advice": "Fix line 7.", "field": "data"}
    take(attempt, [state(1, "failed", error=error)])
    attempt.refresh_from_db()
    attempt_reported_end(attempt=attempt, report=attempt.report)
    attempt.job.refresh_from_db()
    job = attempt.job
    assert (job.state, job.reason) == ("failed", error["message"])
    assert (job.advice, job.failure_kind) == ("Fix line 7.", "bad_data")
    mail = Message.objects.get()
    assert mail.recipient == alice.email and "line 7 has no answer" in mail.text and str(job.pk) in mail.text


def test_a_page_that_pulls_by_cursor_gets_every_point_once(attempt):
    take(attempt, [metric(seq, seq) for seq in range(1, 41)])
    job = attempt.job
    cursor, seen, rounds = None, [], 0
    while True:
        answer = updates_after(job, cursor, limit=7)
        seen += [point[1] for point in answer["metrics"].get("train/reward", [])]
        cursor, rounds = answer["cursor"], rounds + 1
        if not answer["more"]:
            break
    assert seen == list(range(1, 41)) and rounds == 6
    assert updates_after(job, cursor)["metrics"] == {}
    take(attempt, [metric(41, 41, math.inf)])
    assert [p[3] for p in updates_after(job, cursor)["metrics"]["train/reward"]] == ["Infinity"]


@pytest.mark.parametrize("cursor", ["", "x", "1", "1:", ":1", "1:-3", "1:" + "9" * 30, "١:٢"])
def test_a_cursor_that_is_none_is_refused(attempt, cursor):
    if cursor == "١:٢":
        # Digits of other scripts are digits: they are read, not refused.
        updates_after(attempt.job, cursor)
        return
    with pytest.raises(ValueError, match="cursor"):
        updates_after(attempt.job, cursor)
