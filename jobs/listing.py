"""The list of jobs: a page of rows with all they show, in a fixed number of queries whatever the jobs have done."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, QuerySet

from billing.selectors import costs_billed, costs_running
from jobs.models import Job
from jobs.states import ACTIVE, TABLE, Row, State
from records.selectors import recent_points
from records.tags import tagged, tags_of

PAGE_SIZE = 25
SPARK_POINTS = 40
# The first of these that a job has is its headline.
HEADLINES = (
    ("eval/accuracy", "accuracy, held-out"),
    ("train/accuracy", "accuracy"),
    ("train/reward", "reward"),
    ("eval/loss", "loss, held-out"),
    ("train/loss", "loss"),
)
FRACTIONS = frozenset({"eval/accuracy", "train/accuracy"})

# The chips above the list, each a set of states.
GROUPS: dict[str, tuple[str, frozenset[State]]] = {
    "active": ("Active", ACTIVE),
    "waiting": ("Waiting", frozenset({State.QUEUED, State.PLACING, State.PAUSING, State.PAUSED})),
    "running": ("Running", frozenset({State.STARTING, State.RUNNING, State.RECOVERING, State.FINISHING})),
    "succeeded": ("Succeeded", frozenset({State.SUCCEEDED})),
    "failed": ("Failed", frozenset({State.FAILED})),
    "cancelled": ("Cancelled", frozenset({State.CANCELLING, State.CANCELLED})),
}


@dataclass(frozen=True)
class Chip:
    key: str
    label: str
    count: int
    on: bool


@dataclass(frozen=True)
class Line:
    """One job as the list shows it. ``spark`` are the points of an SVG polyline in a box of 80 × 20."""

    job: Job
    state: Row
    active: bool
    metric: str = ""
    value: float | None = None
    is_fraction: bool = False
    spark: str = ""
    cost: Decimal | None = None
    tags: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        return self.job.reason if self.job.state == State.FAILED else ""

    @property
    def percent(self) -> int:
        return round(self.job.fraction * 100)


@dataclass(frozen=True)
class Listing:
    lines: list[Line]
    page: Page[Job]
    chips: list[Chip]
    total: int
    search: str
    group: str
    tag: str
    anything_active: bool = field(default=False)


def job_list(jobs: QuerySet[Job], *, group: str = "", search: str = "", tag: str = "", page: str | int = 1) -> Listing:
    """One page of ``jobs`` (what the caller may see), filtered. An unknown group is no filter."""
    group = group if group in GROUPS else ""
    counts = dict(jobs.order_by().values_list("state").annotate(Count("pk")))
    rows = jobs
    if group:
        rows = rows.filter(state__in=GROUPS[group][1])
    if search := search.strip()[:200]:
        rows = rows.filter(name__icontains=search)
    if tag := tag.strip()[:40]:
        rows = rows.filter(pk__in=tagged("job", tag))
    # The board's state changes under the reader, so ties in time must not move a job from page to page.
    found = Paginator(rows.order_by("-created_at", "pk"), PAGE_SIZE).get_page(page)
    lines = _lines(list(found.object_list))
    return Listing(
        lines=lines,
        page=found,
        chips=_chips(counts, group),
        total=sum(counts.values()),
        search=search,
        group=group,
        tag=tag,
        anything_active=any(line.active for line in lines),
    )


def _chips(counts: dict[str, int], group: str) -> list[Chip]:
    chips = [Chip("", "All", sum(counts.values()), not group)]
    for key, (label, states) in GROUPS.items():
        count = sum(counts.get(state, 0) for state in states)
        chips.append(Chip(key, label, count, key == group))
    return chips


def _lines(jobs: list[Job]) -> list[Line]:
    ids = [job.pk for job in jobs]
    active = [job.pk for job in jobs if State(job.state) in ACTIVE]
    points = recent_points([("job", id) for id in ids], [key for key, _ in HEADLINES], SPARK_POINTS)
    billed = costs_billed("job", ids)
    running = costs_running("job", active)
    tags = tags_of("job", ids)
    lines = []
    for job in jobs:
        shown: dict[str, Any] = {}
        for key, label in HEADLINES:
            values = points.get((job.pk, key))
            if values:
                shown = {"metric": label, "value": values[-1], "is_fraction": key in FRACTIONS, "spark": spark(values)}
                break
        spent = billed.get(job.pk, Decimal(0)) + running.get(job.pk, Decimal(0))
        state = State(job.state)
        lines.append(
            Line(
                job=job,
                state=TABLE[state],
                active=state in ACTIVE,
                tags=tuple(tags.get(job.pk, ())),
                cost=spent if spent or job.started_at else None,
                **shown,
            )
        )
    return lines


def spark(values: list[float], width: int = 80, height: int = 20) -> str:
    """The points of a polyline; one value alone, or all the same, is a level line."""
    if len(values) == 1:
        values = values * 2
    low, high = min(values), max(values)
    span = high - low
    step = width / (len(values) - 1)
    return " ".join(
        f"{index * step:.1f},{height - 2 - (value - low) / span * (height - 4) if span else height / 2:.1f}"
        for index, value in enumerate(values)
    )
