"""What records keeps for a team itself: the views people saved. What happened to a job goes with the job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from records.models import ChartView, SavedView
from workspaces.holdings import Holding
from workspaces.models import User, Workspace


class RecordsHolding(Holding):
    name = "records"

    def tables(self, workspace: Workspace) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "saved_views", SavedView.objects.filter(project__workspace=workspace)
        yield "chart_views", ChartView.objects.filter(project__workspace=workspace)

    def tables_of_person(self, user: User) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "saved_views", SavedView.objects.filter(owner=user)

    def remove(self, workspace: Workspace) -> None:
        for _name, rows in self.tables(workspace):
            rows.delete()
