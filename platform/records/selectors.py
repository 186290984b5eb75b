"""Reading what happened. Callers have already passed the door to the subject; here it is only named."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Count, Q

from records.models import LogLine, MetricPoint, Rollout, Series

Subject = tuple[str, UUID]


def number(value: float) -> float | str:
    """A float as JSON can carry it: the three that JSON lacks become their names."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _rows(subject: Subject) -> Q:
    return Q(subject_kind=subject[0], subject_id=subject[1])


# A stretch of an attempt's journal: its number, and ``after < seq <= until``.
Window = tuple[int, int, int]


def _windows(windows: Collection[Window]) -> Q:
    found = Q()
    for attempt, after, until in windows:
        found |= Q(attempt=attempt, seq__gt=after, seq__lte=until)
    return found


def points_between(subject: Subject, windows: Collection[Window]) -> dict[str, list[list[Any]]]:
    """The points in some stretches of a subject's journals, by metric; two queries.

    Each is ``[attempt, seq, step, value, t (unix s), active_s, tokens]``, in the order of the journals.
    """
    if not windows:
        return {}
    keys = dict(Series.objects.filter(_rows(subject)).values_list("id", "key"))
    found: dict[str, list[list[Any]]] = {}
    rows = (
        MetricPoint.objects.filter(_windows(windows), series_id__in=list(keys))
        .order_by("attempt", "seq", "series_id")
        .values_list("series_id", "attempt", "seq", "step", "value", "at", "active_s", "tokens")
    )
    for series_id, attempt, seq, step, value, at, active_s, tokens in rows.iterator(chunk_size=5000):
        found.setdefault(keys[series_id], []).append(
            [attempt, seq, step, number(value), at.timestamp(), round(active_s, 3), tokens]
        )
    return found


def latest_values(subject: Subject) -> dict[str, dict[str, Any]]:
    """The newest value of each metric: ``{key: {"step", "value", "points", "at"}}``."""
    return {
        row.key: {
            "step": row.last_step,
            "value": None if row.last_value is None else number(row.last_value),
            "points": row.points,
            "at": row.last_at,
        }
        for row in Series.objects.filter(_rows(subject)).order_by("key")
    }


def series_of(subject: Subject, keys: Collection[str] | None = None) -> dict[str, list[list[Any]]]:
    """All points of every metric (or of those named), each step once: where attempts overlap, the later one holds.

    ``{key: [[step, value, active_s, tokens], ...]}`` with real floats, in the order of steps.
    """
    found: dict[str, list[list[Any]]] = {}
    series = Series.objects.filter(_rows(subject))
    if keys is not None:
        series = series.filter(key__in=keys)
    rows = (
        MetricPoint.objects.filter(series__in=series)
        .order_by("series_id", "step", "-attempt", "-seq")
        .distinct("series_id", "step")
        .values_list("series__key", "step", "value", "active_s", "tokens")
    )
    for key, *point in rows.iterator(chunk_size=5000):
        found.setdefault(key, []).append(point)
    return found


def every_point(subject: Subject, keys: Collection[str] | None = None) -> Iterator[tuple[Any, ...]]:
    """Each stored point of these metrics (None: of all), also those that a later attempt wrote again.

    ``(key, attempt, step, value, at, active_s, tokens)``, metric by metric in the order of the journals.
    """
    series = Series.objects.filter(_rows(subject))
    if keys is not None:
        series = series.filter(key__in=keys)
    for pk, key in series.order_by("key").values_list("pk", "key"):
        rows = MetricPoint.objects.filter(series_id=pk).order_by("attempt", "seq")
        fields = rows.values_list("attempt", "step", "value", "at", "active_s", "tokens")
        for row in fields.iterator(chunk_size=5000):
            yield (key, *row)


def recent_points(subjects: list[Subject], keys: list[str], limit: int = 40) -> dict[tuple[UUID, str], list[float]]:
    """The last ``limit`` finite values of some metrics of many subjects, for sparklines; one query."""
    wanted = Q()
    for kind, id in subjects:
        wanted |= Q(subject_kind=kind, subject_id=id)
    if not subjects:
        return {}
    series = {row.pk: (row.subject_id, row.key) for row in Series.objects.filter(wanted, key__in=keys)}
    if not series:
        return {}
    rows = MetricPoint.objects.raw(
        """
        select point.id, point.series_id, point.value
          from unnest(%s::bigint[]) as wanted(series_id)
         cross join lateral (
               select distinct on (step) id, series_id, value, step, attempt from records_metricpoint
                where series_id = wanted.series_id
                order by step desc, attempt desc limit %s) as point
         order by point.series_id, point.step, point.attempt
        """,
        [list(series), limit],
    )
    found: dict[tuple[UUID, str], list[float]] = {}
    for row in rows:
        if math.isfinite(row.value):
            found.setdefault(series[row.series_id], []).append(row.value)
    return found


def log_between(subject: Subject, windows: Collection[Window], last: int | None = None) -> list[list[Any]]:
    """Log lines as ``[attempt, seq, t, level, text]``; with ``last`` only the newest so many; one query."""
    if not windows:
        return []
    rows = LogLine.objects.filter(_rows(subject), _windows(windows)).values_list(
        "attempt", "seq", "at", "level", "text"
    )
    chosen = list(rows.order_by("-attempt", "-seq")[:last])[::-1] if last else list(rows.order_by("attempt", "seq"))
    return [[attempt, seq, at.timestamp(), level, text] for attempt, seq, at, level, text in chosen]


def log_tail(subject: Subject, count: int = 200) -> list[LogLine]:
    """The newest lines over all attempts, oldest first."""
    return list(LogLine.objects.filter(_rows(subject)).order_by("-attempt", "-seq")[:count])[::-1]


def newest_rollout(subject: Subject) -> tuple[int, int] | None:
    """Attempt and journal number of the newest rollout: it changes whenever there is a new one."""
    rows = Rollout.objects.filter(_rows(subject)).order_by("-attempt", "-seq")
    return rows.values_list("attempt", "seq").first()


def rollout_steps(subject: Subject) -> list[dict[str, Any]]:
    """Where there are rollouts: ``[{"step", "phase", "count"}]`` in the order of steps."""
    rows = Rollout.objects.filter(_rows(subject)).values("step", "phase").annotate(count=Count("id"))
    return [dict(row) for row in rows.order_by("step", "phase")]
