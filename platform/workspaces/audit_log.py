"""Reading the audit log of a team: filtered, page by page, and as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Q, QuerySet

from workspaces import access
from workspaces.csv_rows import csv_rows
from workspaces.formats import zone
from workspaces.models import AuditEvent, Role, User, Workspace

PAGE = 50
STRETCH = 1000
COLUMNS = ("at", "who", "action", "kind", "object", "object id", "detail")
FILTERS = ("who", "action", "kind", "since", "until")


@dataclass(frozen=True)
class AuditPage:
    """``next`` is the ``before`` of the following page, None at the end."""

    events: list[AuditEvent]
    next: int | None


def events_visible_to(user: User, workspace: Workspace) -> QuerySet[AuditEvent]:
    """The team's log, the newest first; nothing for anyone below admin."""
    rows = AuditEvent.objects.filter(workspace=workspace)
    return access.visible(rows, user, Role.ADMIN).select_related("actor").order_by("-id")


def filtered(events: QuerySet[AuditEvent], query: Mapping[str, str], zone_name: str = "") -> QuerySet[AuditEvent]:
    """``who`` (part of a name or address), ``action`` and ``kind`` (whole), ``since`` and ``until`` (days, inclusive).

    Days are those of the time zone. A day that is none plays no part.
    """
    who = _text(query, "who")
    if who:
        names = Q(actor_label__icontains=who) | Q(actor__name__icontains=who) | Q(actor__email__icontains=who)
        events = events.filter(names)
    if action := _text(query, "action"):
        events = events.filter(action=action)
    if kind := _text(query, "kind"):
        events = events.filter(object_kind=kind)
    place = zone(zone_name)
    if (since := _day(query, "since")) is not None:
        events = events.filter(at__gte=_midnight(since, place))
    if (until := _day(query, "until")) is not None and until < date.max:
        events = events.filter(at__lt=_midnight(until + timedelta(days=1), place))
    return events


def page(events: QuerySet[AuditEvent], before: str = "", size: int = PAGE) -> AuditPage:
    """Up to ``size`` events older than the event ``before``."""
    if before.isascii() and before.isdigit() and len(before) < 19:
        events = events.filter(id__lt=int(before))
    found = list(events[: size + 1])
    return AuditPage(found[:size], found[size - 1].pk if len(found) > size else None)


def choices(workspace: Workspace) -> tuple[list[str], list[str]]:
    """The actions and the kinds of object that the team's log has."""
    rows = AuditEvent.objects.filter(workspace=workspace).order_by()
    actions = sorted(rows.values_list("action", flat=True).distinct())
    return actions, sorted(rows.values_list("object_kind", flat=True).distinct())


def csv_lines(events: QuerySet[AuditEvent]) -> Iterator[bytes]:
    """The events as CSV, in stretches, the newest first; no cell can be taken for a formula by a spreadsheet."""
    # Excel takes UTF-8 for what it is only with this mark.
    yield "\ufeff".encode() + csv_rows([COLUMNS])
    last: int | None = None
    while True:
        wanted = events if last is None else events.filter(id__lt=last)
        stretch = list(wanted[:STRETCH])
        if not connection.in_atomic_block:
            connection.close()
        if stretch:
            yield csv_rows([_cells(event) for event in stretch])
        if len(stretch) < STRETCH:
            return
        last = stretch[-1].pk


def _cells(event: AuditEvent) -> list[str]:
    detail = json.dumps(event.detail, ensure_ascii=False) if event.detail else ""
    return [
        event.at.isoformat(),
        event.actor_label,
        event.action,
        event.object_kind,
        event.object_label,
        event.object_id,
        detail,
    ]


def _text(query: Mapping[str, str], name: str) -> str:
    return query.get(name, "").replace("\x00", "").strip()[:200]


def _day(query: Mapping[str, str], name: str) -> date | None:
    try:
        return date.fromisoformat(query.get(name, ""))
    except ValueError:
        return None


def _midnight(day: date, place: ZoneInfo) -> datetime:
    return datetime.combine(day, time.min, place)
