"""Reading what things cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Sum
from django.utils import timezone

from billing.models import LedgerLine, Price, Usage
from billing.services import amount, pieces, priced
from compute.models import Lease, Pool


@dataclass(frozen=True)
class Cost:
    """``billed`` is in the ledger; ``running`` is what open leases have come to since they began."""

    billed: Decimal
    running: Decimal
    currency: str

    @property
    def total(self) -> Decimal:
        return self.billed + self.running


def cost_of(used_by_kind: str, used_by_id: UUID) -> Cost:
    """What a job (or session) has cost up to now."""
    billed = LedgerLine.objects.filter(used_by_kind=used_by_kind, used_by_id=used_by_id).aggregate(sum=Sum("amount"))
    now = timezone.now()
    running = Decimal(0)
    open_leases = Lease.objects.filter(
        grant__request__holder_kind=used_by_kind, grant__request__holder_id=used_by_id, during__upper_inf=True
    ).select_related("node__pool")
    for lease in open_leases:
        for price, seconds in priced(lease.node.pool, lease.during.lower, now):
            running += amount(seconds, price.per_device_hour)
    return Cost(billed["sum"] or Decimal(0), running, "USD")


def costs_billed(used_by_kind: str, ids: list[UUID]) -> dict[UUID, Decimal]:
    """Ledger totals of many at once, for lists."""
    rows = (
        LedgerLine.objects.filter(used_by_kind=used_by_kind, used_by_id__in=ids)
        .values("used_by_id")
        .annotate(sum=Sum("amount"))
    )
    return {row["used_by_id"]: row["sum"] for row in rows}


def costs_running(used_by_kind: str, ids: list[UUID]) -> dict[UUID, Decimal]:
    """What the open leases of many have come to since they began, for lists; two queries however many there are."""
    leases = list(
        Lease.objects.filter(
            grant__request__holder_kind=used_by_kind, grant__request__holder_id__in=ids, during__upper_inf=True
        ).select_related("node", "grant__request")
    )
    prices: dict[UUID, list[Price]] = {}
    for price in Price.objects.filter(pool_id__in={lease.node.pool_id for lease in leases}).order_by("starts_at"):
        prices.setdefault(price.pool_id, []).append(price)
    now = timezone.now()
    found: dict[UUID, Decimal] = {}
    for lease in leases:
        holder = lease.grant.request.holder_id
        for price, seconds in pieces(prices.get(lease.node.pool_id, []), lease.during.lower, now):
            found[holder] = found.get(holder, Decimal(0)) + amount(seconds, price.per_device_hour)
    return found


def bill_of(used_by_kind: str, used_by_id: UUID) -> list[dict[str, Any]]:
    """The lines of a bill as a person reads them: one per attempt, price and category."""
    lines = (
        LedgerLine.objects.filter(used_by_kind=used_by_kind, used_by_id=used_by_id)
        .values("usage__epoch", "usage__lease__node__pool__name", "per_device_hour", "currency")
        .annotate(device_seconds=Sum("seconds"), amount=Sum("amount"))
        .order_by("usage__epoch")
    )
    bill = [
        {
            "attempt": line["usage__epoch"],
            "pool": line["usage__lease__node__pool__name"],
            "what": "training",
            "device_seconds": line["device_seconds"],
            "per_device_hour": line["per_device_hour"],
            "amount": line["amount"],
            "currency": line["currency"],
        }
        for line in lines
    ]
    lost = (
        Usage.objects.filter(used_by_kind=used_by_kind, used_by_id=used_by_id, category=Usage.Category.LOST)
        .values("epoch", "lease__node__pool__name")
        .annotate(device_seconds=Sum("seconds"))
        .order_by("epoch")
    )
    bill += [
        {
            "attempt": row["epoch"],
            "pool": row["lease__node__pool__name"],
            "what": "lost to a fault of the platform, free",
            "device_seconds": row["device_seconds"],
            "per_device_hour": Decimal(0),
            "amount": Decimal(0),
            "currency": "USD",
        }
        for row in lost
    ]
    return sorted(bill, key=lambda line: line["attempt"])


def current_price(device_kind: str, tier: str) -> Price | None:
    """What a device of this kind and tier costs now; None when there is no such pool."""
    pool = Pool.objects.filter(device_kind=device_kind, tier=tier).first()
    if pool is None:
        return None
    return pool.prices.filter(starts_at__lte=timezone.now()).order_by("-starts_at").first()
