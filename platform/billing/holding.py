"""What billing keeps for a team: usage and ledger. Both go with the team; the leases, which name nobody, stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from billing.models import LedgerLine, Usage
from workspaces.holdings import Holding
from workspaces.models import Workspace


class BillingHolding(Holding):
    name = "billing"

    def tables(self, workspace: Workspace) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "usage", Usage.objects.filter(project__workspace=workspace)
        yield "ledger", LedgerLine.objects.filter(workspace=workspace)

    def remove(self, workspace: Workspace) -> None:
        lines = LedgerLine.objects.filter(workspace=workspace)
        # A corrected line goes after what corrects it.
        while LedgerLine.objects.filter(pk__in=lines.filter(corrections__isnull=True).values("pk")).delete()[0]:
            pass
        Usage.objects.filter(project__workspace=workspace).delete()
