"""Writing what happened: the rows of a stretch of an attempt's journal, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from records.models import LogLine, MetricBucket, MetricPoint, Rollout, Series, Tag
from records.rollup import ROLLED_FROM, rollup_extend, steps_of

Event = Mapping[str, Any]


def ingest(
    *,
    subject_kind: str,
    subject_id: UUID,
    attempt: int,
    events: Iterable[Event],
    hide: Callable[[str], str] = str,
) -> None:
    """Store the metric, rollout and log events among ``events``; other kinds are not records and are passed over.

    ``hide`` takes out of logs and samples what must not be kept, such as the values of secrets.

    The caller passes each event once (it moves its cursor in the same transaction); should one come again all the
    same, the unique keys let it fall.
    """
    subject = {"subject_kind": subject_kind, "subject_id": subject_id}
    metrics, rollouts, lines = [], [], []
    for event in events:
        match event["kind"]:
            case "metric":
                metrics.append(event)
            case "rollout":
                rollouts.append(Rollout(**subject, attempt=attempt, **_rollout_fields(event, hide)))
            case "log":
                lines.append(
                    LogLine(
                        **subject,
                        attempt=attempt,
                        seq=event["seq"],
                        at=_time(event),
                        level=str(event.get("level", "info"))[:10],
                        text=clean(hide(str(event.get("text", "")))),
                    )
                )
    if metrics:
        _store_points(subject, attempt, metrics)
    if rollouts:
        Rollout.objects.bulk_create(rollouts, ignore_conflicts=True, batch_size=500)
    if lines:
        LogLine.objects.bulk_create(lines, ignore_conflicts=True, batch_size=2000)


def forget(*, subject_kind: str, subject_ids: Sequence[UUID]) -> None:
    """Remove everything that happened to these subjects."""
    for start in range(0, len(subject_ids), 500):
        subjects = {"subject_kind": subject_kind, "subject_id__in": subject_ids[start : start + 500]}
        series = Series.objects.filter(**subjects)
        MetricBucket.objects.filter(series__in=series).delete()
        MetricPoint.objects.filter(series__in=series).delete()
        series.delete()
        Rollout.objects.filter(**subjects).delete()
        LogLine.objects.filter(**subjects).delete()
        Tag.objects.filter(**subjects).delete()


def clean(value: Any) -> str:
    """Text as Postgres can hold it: NUL becomes its picture, half a surrogate pair a question mark."""
    return str(value).replace("\x00", "\u2400").encode("utf-8", "replace").decode("utf-8")


def _store_points(subject: dict[str, Any], attempt: int, events: list[Event]) -> None:
    keys = {clean(key)[:200] for event in events for key in event["values"]}
    series = _series(subject, keys)
    points = []
    for event in events:
        for key, value in event["values"].items():
            points.append(
                MetricPoint(
                    series=series[clean(key)[:200]],
                    attempt=attempt,
                    seq=event["seq"],
                    step=event["step"],
                    value=float(value),
                    at=_time(event),
                    active_s=event.get("active_s") or 0,
                    tokens=event.get("tokens") or 0,
                )
            )
    MetricPoint.objects.bulk_create(points, ignore_conflicts=True, batch_size=2000)
    latest = {point.series_id: point for point in points}
    steps: dict[int, list[int]] = {}
    for point in points:
        steps.setdefault(point.series_id, []).append(point.step)
    for series_id, point in latest.items():
        Series.objects.filter(pk=series_id).update(
            points=F("points") + len(steps[series_id]), last_step=point.step, last_value=point.value, last_at=point.at
        )
    _roll_up({row.pk: row.points for row in series.values()}, steps)


def _series(subject: dict[str, Any], keys: Collection[str]) -> dict[str, Series]:
    """The series of these metrics; only the first stretch that has a metric makes one."""
    rows = Series.objects.filter(**subject, key__in=keys)
    found = {row.key: row for row in rows}
    new = sorted(set(keys) - set(found))
    if new:
        Series.objects.bulk_create([Series(**subject, key=key) for key in new], ignore_conflicts=True)
        found = {row.key: row for row in rows.all()}
    return found


def _roll_up(before: dict[int, int], steps: dict[int, list[int]]) -> None:
    """Keep the buckets of the series that are long; one that has just become so gets those of all its points."""
    long = {pk: found for pk, found in steps.items() if before[pk] + len(found) > ROLLED_FROM}
    new = [pk for pk in long if before[pk] <= ROLLED_FROM]
    wanted: dict[int, Collection[int]] = {**long}
    wanted.update(steps_of(new) if new else {})
    rollup_extend(wanted)


def _rollout_fields(event: Event, hide: Callable[[str], str]) -> dict[str, Any]:
    answer = event.get("answer")
    return {
        "seq": event["seq"],
        "step": event["step"],
        "phase": str(event["phase"])[:10],
        "group": event.get("group", 0),
        "index": event.get("index", 0),
        "prompt": clean(hide(str(event["prompt"]))),
        "prompt_key": str(event.get("prompt_key", ""))[:64],
        "completion": clean(hide(str(event["completion"]))),
        "answer": None if answer is None else clean(hide(str(answer))),
        "reward": float(event["reward"]),
        "parts": {clean(key)[:200]: value for key, value in (event.get("parts") or {}).items()},
        "accurate": bool(event.get("accurate", False)),
        "tokens": event.get("tokens", 0),
        "truncated": bool(event.get("truncated", False)),
        "greedy": bool(event.get("greedy", False)),
        "at": _time(event),
    }


def _time(event: Event) -> datetime:
    return datetime.fromtimestamp(event["t"], UTC)
