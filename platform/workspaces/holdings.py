"""What the apps above this one keep for a team, so that it can be counted, exported and removed without knowing them.

Each app registers one :class:`Holding` when it starts (``AppConfig.ready``). The order of registration is the order of
the floors, ground first; removal goes the other way, because upper rows refer to lower ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from workspaces.models import User, Workspace


class Holding:
    """One app's part of a team; an app overrides what it has something to say about."""

    name = ""

    def tables(self, workspace: Workspace) -> Iterable[tuple[str, QuerySet[Any]]]:
        """The rows to export, as ``(file name, rows)``."""
        return ()

    def tables_of_person(self, user: User) -> Iterable[tuple[str, QuerySet[Any]]]:
        """The rows that a person made, for their own export."""
        return ()

    def files(self, workspace: Workspace) -> Iterable[str]:
        """Keys in storage that belong to the team."""
        return ()

    def used_bytes(self, workspace: Workspace) -> dict[str, int]:
        """Bytes in storage by kind, from the database alone."""
        return {}

    def stop(self, workspace: Workspace, actor: User | None) -> None:
        """Begin to end whatever runs for the team."""

    def busy(self, workspace: Workspace) -> bool:
        """Whether something still runs, so that nothing may be removed yet."""
        return False

    def remove(self, workspace: Workspace) -> None:
        """Remove what storage holds for the team, then the app's rows of it; in a transaction.

        Called again after a failure, so files that are already gone are no error.
        """

    def forget_person(self, user_id: UUID, labels: Iterable[str], stand_in: str) -> None:
        """Put ``stand_in`` where rows keep a person's name or address (one of ``labels``) as text."""


_holdings: dict[str, Holding] = {}


def register(holding: Holding) -> None:
    """Make an app's part known; a second one of the same name takes the place of the first."""
    _holdings[holding.name] = holding


def all_holdings() -> list[Holding]:
    """Ground floor first."""
    return list(_holdings.values())


def from_the_top() -> Iterator[Holding]:
    return reversed(_holdings.values())
