"""Two things at a glance for a home page: what was spent this month, and what the cluster is doing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Count, Sum
from django.utils import timezone

from billing.models import LedgerLine
from compute.models import DeviceKind, Lease, Node, Request
from workspaces.models import Project


@dataclass(frozen=True)
class Devices:
    """Of one kind: how many living nodes hold, and how many of them are in use now."""

    label: str
    all: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.all - self.used)


@dataclass(frozen=True)
class Glance:
    """``spent`` is what the ledger holds for the project since the month began, by the clock in UTC."""

    spent: Decimal
    currency: str
    devices: list[Devices]
    waiting: int


def glance_of(project: Project) -> Glance:
    """Five small queries. How much is free and how many wait is no secret among those who share the cluster."""
    begin = timezone.now().astimezone(ZoneInfo("UTC")).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    billed = LedgerLine.objects.filter(project=project, created_at__gte=begin)
    row = billed.values("currency").annotate(sum=Sum("amount")).order_by("-sum").first()
    nodes = Node.objects.filter(alive=True).values("pool__device_kind").annotate(devices=Sum("devices")).order_by()
    held = Lease.objects.filter(node__alive=True, during__upper_inf=True)
    used = dict(held.values_list("node__pool__device_kind").annotate(count=Count("pk")).order_by())
    return Glance(
        spent=row["sum"] if row else Decimal(0),
        currency=row["currency"] if row else "USD",
        devices=[
            Devices(
                DeviceKind(kind["pool__device_kind"]).label, kind["devices"], used.get(kind["pool__device_kind"], 0)
            )
            for kind in sorted(nodes, key=lambda kind: str(kind["pool__device_kind"]))
        ],
        waiting=Request.objects.filter(state=Request.State.WAITING).count(),
    )
