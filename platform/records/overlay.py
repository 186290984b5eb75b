"""One metric of several subjects, thinned for a chart: of each bucket of steps the lowest, the highest and the last."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from django.db import connection

from records.models import Series
from records.rollup import LEVELS, ROLLED_FROM, SUMMARY, held

Axis = Literal["step", "wall", "active", "tokens"]
AXES: tuple[Axis, ...] = ("step", "wall", "active", "tokens")
# Buckets of a line: three points each at most, which is about what a chart has pixels for.
MOST_BUCKETS = 256
# A series with no more points than this is given whole, however its steps lie.
WHOLE = 3 * MOST_BUCKETS


@dataclass
class Line:
    """What a chart draws of one subject. A ``y`` of None is a gap; ``gaps`` counts the values that are no numbers.

    ``xs`` are steps, unix seconds, seconds of running or tokens, after the axis that was asked for. ``version`` says
    how many points the series has had: it changes with each new one.
    """

    version: int
    gaps: int = 0
    last: float | None = None
    xs: list[float] = field(default_factory=list)
    ys: list[float | None] = field(default_factory=list)


def overlay(kind: str, ids: Collection[UUID], key: str, axis: Axis = "step") -> dict[UUID, Line]:
    """The lines of the subjects that have this metric; three queries at most, however many subjects and points."""
    series = {row.pk: row for row in Series.objects.filter(subject_kind=kind, subject_id__in=list(ids), key=key)}
    lines = {pk: Line(version=row.points) for pk, row in series.items()}
    width = _width(series.values())
    short = [pk for pk, row in series.items() if row.points <= ROLLED_FROM]
    long = [pk for pk, row in series.items() if row.points > ROLLED_FROM]
    shifts = [0 if series[pk].points <= WHOLE else width for pk in short]
    for rows in (_from_points(short, shifts), _from_buckets(long, max(width, LEVELS[0]))):
        for pk, gaps, low, high, last in rows:
            _add(lines[pk], gaps, _points(low, high, last), axis)
    return {series[pk].subject_id: line for pk, line in lines.items()}


def _width(series: Collection[Series]) -> int:
    """The power of two that lays at most ``MOST_BUCKETS`` buckets over the longest of the series."""
    longest = max((row.last_step or 0 for row in series), default=0)
    return max(0, (longest // MOST_BUCKETS).bit_length())


def _from_points(series: Sequence[int], shifts: Sequence[int]) -> list[tuple[Any, ...]]:
    if not series:
        return []
    source = """unnest(%s::bigint[], %s::int[]) as w(series_id, shift)
          join records_metricpoint p on p.series_id = w.series_id"""
    rows = held(source, columns="w.shift,")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""select series_id, gaps, low, high, last from (
                select series_id, step >> shift as bucket, {SUMMARY} from ({rows}) held group by 1, 2
            ) found order by series_id, bucket""",
            [list(series), list(shifts)],
        )
        return cursor.fetchall()


def _from_buckets(series: Sequence[int], width: int) -> list[tuple[Any, ...]]:
    if not series:
        return []
    level = max(level for level in LEVELS if level <= width)
    with connection.cursor() as cursor:
        cursor.execute(
            """select series_id, sum(gaps)::bigint, min(low), max(high), max(last)
                 from records_metricbucket where series_id = any(%s) and level = %s
                group by series_id, bucket >> %s order by series_id, bucket >> %s""",
            [list(series), level, width - level, width - level],
        )
        return cursor.fetchall()


def _points(low: list[float] | None, high: list[float] | None, last: list[float]) -> list[tuple[float, ...]]:
    """The bucket's points as (step, value, t, active, tokens), each once and in the order of steps."""
    found = {last[0]: tuple(last)}
    for extreme in (low, high):
        if extreme is not None:
            value, step, *rest = extreme
            found[step] = (step, value, *rest)
    return [found[step] for step in sorted(found)]


def _add(line: Line, gaps: int, points: list[tuple[float, ...]], axis: Axis) -> None:
    line.gaps += gaps
    place = (0, 2, 3, 4)[AXES.index(axis)]
    for point in points:
        x = point[place]
        line.xs.append(int(x) if x.is_integer() else round(x, 3))
        line.ys.append(point[1] if math.isfinite(point[1]) else None)
        line.last = line.ys[-1]


@dataclass(frozen=True)
class Extremes:
    """The newest value of a series and its extremes with their steps; None where no value is a number."""

    last: float | None
    last_step: int | None
    low: tuple[float, int] | None
    high: tuple[float, int] | None


def extremes(kind: str, ids: Collection[UUID], keys: Collection[str]) -> dict[tuple[UUID, str], Extremes]:
    """Last, lowest and highest value of these metrics of these subjects, in three queries."""
    rows = list(Series.objects.filter(subject_kind=kind, subject_id__in=list(ids), key__in=list(keys)))
    found: dict[int, tuple[Any, Any]] = {}
    short = [row.pk for row in rows if row.points <= ROLLED_FROM]
    long = [row.pk for row in rows if row.points > ROLLED_FROM]
    # One bucket for everything.
    for part in (_from_points(short, [62] * len(short)), _from_buckets(long, 62)):
        for pk, _gaps, low, high, _last in part:
            found[pk] = (low and (low[0], int(low[1])), high and (high[0], int(high[1])))
    return {
        (row.subject_id, row.key): Extremes(row.last_value, row.last_step, *found.get(row.pk, (None, None)))
        for row in rows
    }
