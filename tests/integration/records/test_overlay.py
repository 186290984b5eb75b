"""Lines of several runs for one chart: thinned the same way each time, with every extreme, right after a restart."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from records.models import MetricBucket, MetricPoint, Series
from records.overlay import MOST_BUCKETS, WHOLE, extremes, overlay
from records.rollup import LEVELS, ROLLED_FROM
from records.services import forget, ingest

pytestmark = pytest.mark.django_db
KEY = "train/loss"


class Run:
    """A subject whose points come in by the one way there is."""

    def __init__(self) -> None:
        self.id = uuid.uuid4()
        self.seq = 0

    def take(self, values: dict[int, float], attempt: int = 1) -> Run:
        events: list[dict[str, Any]] = []
        for step, value in values.items():
            self.seq += 1
            event = {"kind": "metric", "seq": self.seq, "step": step, "values": {KEY: value}, "t": 1e9 + step}
            events.append(event | {"active_s": step / 2, "tokens": step * 100})
        ingest(subject_kind="job", subject_id=self.id, attempt=attempt, events=events)
        return self

    def line(self, axis: Any = "step") -> Any:
        return overlay("job", [self.id], KEY, axis)[self.id]


def noise(count: int, first: int = 1, spread: int = 1) -> dict[int, float]:
    dice = random.Random(7)
    return {first + spread * n: dice.random() for n in range(count)}


def test_sparse_steps_come_whole():
    line = Run().take(noise(300, 0, 1000)).line()
    assert line.xs == [1000 * n for n in range(300)]


def test_each_axis_has_the_same_points():
    run = Run().take({1: 0.0, 2: -1.0, 4: 5.0})
    assert run.line().xs == [1, 2, 4] and run.line().ys == [0.0, -1.0, 5.0]
    assert run.line("wall").xs == [1e9 + 1, 1e9 + 2, 1e9 + 4]
    assert run.line("active").xs == [0.5, 1, 2]
    assert run.line("tokens").xs == [100, 200, 400]


@pytest.mark.parametrize("count", [WHOLE, WHOLE + 1, ROLLED_FROM, ROLLED_FROM + 1, 3 * ROLLED_FROM])
def test_a_line_is_thin_and_keeps_the_extremes_and_the_end(count):
    values = noise(count)
    values[count // 3], values[count // 2] = 99.0, -99.0
    line = Run().take(values).line()
    assert len(line.xs) <= 3 * MOST_BUCKETS + 3 and line.xs == sorted(set(line.xs))
    assert {99.0, -99.0} <= set(line.ys) and line.xs[-1] == count
    assert all(values[x] == y for x, y in zip(line.xs, line.ys, strict=True)), "every point drawn is one of the run's"


def test_the_same_question_has_the_same_answer_and_new_points_move_no_old_ones():
    run = Run().take(noise(6000))
    first = run.line()
    assert run.line() == first
    run.take(noise(500, 6001))
    longer = run.line()
    settled = [pair for pair in zip(first.xs, first.ys, strict=True) if pair[0] < 5984]
    assert list(zip(longer.xs, longer.ys, strict=True))[: len(settled)] == settled


def test_the_way_the_points_came_in_makes_no_difference():
    values = noise(5000)
    whole, pieces = Run().take(values), Run()
    steps = list(values)
    for start in range(0, len(steps), 617):
        pieces.take({step: values[step] for step in steps[start : start + 617]})
    assert (pieces.line().xs, pieces.line().ys) == (whole.line().xs, whole.line().ys)
    kept = MetricBucket.objects.order_by("level", "bucket").values_list("level", "bucket", "points", "low", "last")
    both = [list(kept.filter(series__subject_id=run.id)) for run in (whole, pieces)]
    assert both[0] == both[1] and {row[0] for row in both[0]} == set(LEVELS)


@pytest.mark.parametrize("count", [100, 2000, 6000])
def test_after_a_restart_the_later_attempt_holds(count):
    run = Run().take(noise(count))
    run.take({step: 7.0 for step in range(count - 50, count + 20)}, attempt=2)
    line = run.line()
    again = [y for x, y in zip(line.xs, line.ys, strict=True) if x >= count - 50]
    assert line.xs[-1] == count + 19 and again and set(again) == {7.0}


@pytest.mark.parametrize("count", [100, 6000])
def test_values_that_are_no_numbers_are_gaps_and_counted(count):
    values = noise(count) | {5: math.nan, 6: math.inf, 7: -math.inf, count: math.nan}
    line = Run().take(values).line()
    assert line.gaps == 4 and line.ys[-1] is None and line.xs[-1] == count
    json.dumps(line.ys, allow_nan=False)


def test_a_run_of_nothing_but_gaps_has_no_extremes():
    run = Run().take({1: math.nan})
    found = extremes("job", [run.id], [KEY])[run.id, KEY]
    assert (found.low, found.high, found.last_step) == (None, None, 1)


@pytest.mark.parametrize("count", [100, 6000])
def test_extremes_are_those_of_all_points(count):
    run = Run().take(noise(count) | {17: 8.0, 23: -8.0})
    found = extremes("job", [run.id, uuid.uuid4()], [KEY])
    assert list(found) == [(run.id, KEY)]
    assert (found[run.id, KEY].low, found[run.id, KEY].high) == ((-8.0, 23), (8.0, 17))


def test_twenty_long_runs_are_three_queries_a_small_answer_and_the_index():
    runs = [Run() for _ in range(20)]
    made = Series.objects.bulk_create(
        Series(subject_kind="job", subject_id=run.id, key=KEY, points=20_000, last_step=20_000) for run in runs
    )
    fill_buckets([row.pk for row in made], 20_000)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        lines = overlay("job", [run.id for run in runs], KEY)
    assert len(asked) == 2 and len(lines) == 20
    body = json.dumps([[line.xs, line.ys] for line in lines.values()], separators=(",", ":"))
    assert 10_000 < len(body) < 1_000_000
    plan = "\n".join(row[0] for row in explain(asked[1]["sql"]))
    assert "one_bucket_per_place" in plan and "Seq Scan" not in plan


def fill_buckets(series: Sequence[int], last_step: int) -> None:
    """Buckets as series of this length have them, without the points: what is read is the buckets."""
    with connection.cursor() as cursor:
        cursor.execute(
            """insert into records_metricbucket (series_id, level, bucket, points, gaps, low, high, last)
               select series, level, bucket, 1 << level, 0,
                      array[random(), bucket << level, 1e9, 1, 2],
                      array[1 + random(), (bucket << level) + 1, 1e9, 1, 2],
                      array[(bucket << level) + 2, random(), 1e9, 1, 2]
                 from unnest(%s::bigint[]) as series, unnest(%s::int[]) as level,
                      generate_series(0::bigint, %s::bigint >> level) as bucket""",
            [list(series), list(LEVELS), last_step],
        )
        cursor.execute("analyze records_metricbucket")


def explain(sql: str) -> list[tuple[str]]:
    with connection.cursor() as cursor:
        cursor.execute(f"explain {sql}")
        return cursor.fetchall()


def test_forgetting_a_subject_takes_its_buckets_along():
    run = Run().take(noise(5000))
    forget(subject_kind="job", subject_ids=[run.id])
    assert not MetricBucket.objects.exists() and not MetricPoint.objects.exists()
