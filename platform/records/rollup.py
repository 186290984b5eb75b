"""Buckets of long series, kept as the points come: a chart of a million points reads a few hundred rows.

A bucket of level ``L`` holds the steps from ``n · 2^L`` to ``(n + 1) · 2^L - 1`` and keeps the lowest, the highest and
the last point among them (the M4 idea of Jugel et al., VLDB 2014, without the first). Buckets begin at step 0 whatever
is asked for, so the same points always give the same buckets, and new steps never change those before them. Where
attempts overlap, a step counts once, with the later attempt's point; a bucket that gets new points is made afresh.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from django.db import connection

from records.models import MetricPoint

LEVELS = (4, 7, 10, 13, 16, 19, 22, 25)
# Shorter series are read from their points.
ROLLED_FROM = 4096

NOT_FINITE = "'{NaN,Infinity,-Infinity}'::float8[]"


def held(source: str, columns: str = "") -> str:
    """SQL for the points ``p`` of ``source``, each step once, as the latest attempt has it."""
    return f"""
        select distinct on (p.series_id, p.step) p.series_id, p.step, p.value, {columns}
               p.value <> all ({NOT_FINITE}) as finite, extract(epoch from p.at)::float8 as t, p.active_s, p.tokens
          from {source}
         order by p.series_id, p.step, p.attempt desc, p.seq desc"""


# Arrays compare by their first element, then by the second: the extreme carries its step and times with it.
SUMMARY = """
    count(*) as points, count(*) filter (where not finite) as gaps,
    min(array[value, step, t, active_s, tokens]::float8[]) filter (where finite) as low,
    max(array[value, step, t, active_s, tokens]::float8[]) filter (where finite) as high,
    max(array[step, value, t, active_s, tokens]::float8[]) as last"""

_WANTED = "unnest(%s::bigint[], %s::bigint[]) as w(series_id, bucket)"


def _store(select: str) -> str:
    return f"""
        insert into records_metricbucket (series_id, level, bucket, points, gaps, low, high, last)
        {select}
        on conflict (series_id, level, bucket) do update
           set points = excluded.points, gaps = excluded.gaps,
               low = excluded.low, high = excluded.high, last = excluded.last"""


def rollup_extend(steps: Mapping[int, Collection[int]]) -> None:
    """Bring the buckets of series up to date, in the caller's transaction. ``steps``: those with new points, by id."""
    wanted = list({(series, step >> LEVELS[0]) for series, found in steps.items() for step in found})
    if not wanted:
        return
    with connection.cursor() as cursor:
        cursor.execute(_from_points(), _columns(wanted))
        for below, level in pairwise(LEVELS):
            wanted = list({(series, bucket >> (level - below)) for series, bucket in wanted})
            cursor.execute(_from_below(below, level), _columns(wanted))


def steps_of(series: Collection[int]) -> dict[int, set[int]]:
    """All steps that these series have."""
    found: dict[int, set[int]] = {}
    for pk, step in MetricPoint.objects.filter(series_id__in=series).values_list("series_id", "step"):
        found.setdefault(pk, set()).add(step)
    return found


def _columns(wanted: Collection[tuple[int, int]]) -> list[list[int]]:
    return [[series for series, _ in wanted], [bucket for _, bucket in wanted]]


def _from_points() -> str:
    level = LEVELS[0]
    source = f"""{_WANTED} join records_metricpoint p on p.series_id = w.series_id
       and p.step >= w.bucket << {level} and p.step < (w.bucket + 1) << {level}"""
    select = f"select series_id, {level}, step >> {level}, {SUMMARY} from ({held(source)}) held group by 1, 3"
    return _store(select)


def _from_below(below: int, level: int) -> str:
    shift = level - below
    select = f"""
        select b.series_id, {level}, w.bucket, sum(b.points), sum(b.gaps), min(b.low), max(b.high), max(b.last)
          from {_WANTED} join records_metricbucket b on b.series_id = w.series_id and b.level = {below}
           and b.bucket >= w.bucket << {shift} and b.bucket < (w.bucket + 1) << {shift}
         group by b.series_id, w.bucket"""
    return _store(select)
