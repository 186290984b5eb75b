"""Turning the seconds of leases into ledger lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.db import transaction

from billing.models import LedgerLine, Price, Usage
from compute.models import DeviceKind, Lease, Pool
from workspaces.models import Project

HOUR = Decimal(3600)
MILLIONTH = Decimal("0.000001")
# What a device costs per hour until the operator says otherwise (`TUNEYARD_PRICE_CPU`, `TUNEYARD_PRICE_GPU`).
DEFAULT_PRICES = {DeviceKind.CPU: "0.05", DeviceKind.GPU: "2.50"}
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


def seconds_between(start: datetime, end: datetime) -> Decimal:
    """Exact seconds, to the microsecond, never negative."""
    return max(Decimal((end - start) // timedelta(microseconds=1)) * MILLIONTH, Decimal(0))


def price_ensure(*, pool: Pool) -> None:
    """Give a pool without any price the default of its kind, from the beginning of time."""
    if not pool.prices.exists():
        default = (
            os.environ.get(f"TUNEYARD_PRICE_{pool.device_kind.upper()}") or DEFAULT_PRICES[DeviceKind(pool.device_kind)]
        )
        Price.objects.get_or_create(pool=pool, starts_at=BEGINNING, defaults={"per_device_hour": Decimal(default)})


def priced(pool: Pool, start: datetime, end: datetime) -> Iterator[tuple[Price, Decimal]]:
    """Cut [start, end) where the price changes: ``(price, seconds)`` of each piece, in order."""
    return pieces(list(pool.prices.filter(starts_at__lt=end).order_by("starts_at")), start, end)


def pieces(prices: Sequence[Price], start: datetime, end: datetime) -> Iterator[tuple[Price, Decimal]]:
    """The same for prices already read, in the order in which they begin."""
    for price, following in zip_longest(prices, prices[1:]):
        begin = max(start, price.starts_at)
        finish = min(end, following.starts_at) if following else end
        if finish > begin:
            yield price, seconds_between(begin, finish)


def amount(seconds: Decimal, per_device_hour: Decimal) -> Decimal:
    """One device's cost, rounded once, half to even, to a millionth of the currency."""
    return (seconds * per_device_hour / HOUR).quantize(MILLIONTH, ROUND_HALF_EVEN)


@transaction.atomic
def usage_settle(
    *,
    leases: Iterable[Lease],
    project: Project,
    used_by_kind: str,
    used_by_id: UUID,
    epoch: int,
    lost_after: datetime | None = None,
) -> Decimal:
    """Write usage and ledger lines of ended leases; idempotent. Returns what they cost.

    Work is charged. What came after ``lost_after`` (None: nothing) was lost to a fault of the platform: it is recorded
    without a line.
    """
    total = Decimal(0)
    for lease in leases:
        start, end = lease.during.lower, lease.during.upper
        cut = end if lost_after is None else min(max(lost_after, start), end)
        who = {"project": project, "used_by_kind": used_by_kind, "used_by_id": used_by_id, "epoch": epoch}
        if cut < end:
            _usage(lease, Usage.Category.LOST, cut, end, who)
        if start < cut or cut == end:
            total += _charge(lease, start, cut, who)
    return total


def _charge(lease: Lease, start: datetime, end: datetime, who: dict[str, Any]) -> Decimal:
    usage, created = _usage(lease, Usage.Category.WORK, start, end, who)
    if created:
        for price, seconds in priced(lease.node.pool, start, end):
            LedgerLine.objects.create(
                workspace_id=usage.project.workspace_id,
                project=usage.project,
                usage=usage,
                price=price,
                used_by_kind=usage.used_by_kind,
                used_by_id=usage.used_by_id,
                seconds=seconds,
                per_device_hour=price.per_device_hour,
                amount=amount(seconds, price.per_device_hour),
                currency=price.currency,
            )
    return sum((line.amount for line in usage.lines.all()), Decimal(0))


def _usage(
    lease: Lease, category: Usage.Category, start: datetime, end: datetime, who: dict[str, Any]
) -> tuple[Usage, bool]:
    return Usage.objects.get_or_create(
        lease=lease,
        used_by_kind=who["used_by_kind"],
        used_by_id=who["used_by_id"],
        category=category,
        defaults={"project": who["project"], "epoch": who["epoch"], "seconds": seconds_between(start, end)},
    )
