"""How much a team stores, and how much it may. What counts is told by the apps that store (``holdings``)."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from workspaces import formats, holdings
from workspaces.errors import Refused
from workspaces.models import Workspace


@dataclass(frozen=True)
class Usage:
    """``parts`` is ``{"datasets": bytes, ...}``; ``limit`` None means that there is none."""

    parts: dict[str, int]
    limit: int | None

    @property
    def used(self) -> int:
        return sum(self.parts.values())

    @property
    def fraction(self) -> float:
        """Of the limit, at most 1; 0 without one."""
        return min(1.0, self.used / self.limit) if self.limit else 0.0

    @property
    def percent(self) -> int:
        return round(100 * self.fraction)

    @property
    def tone(self) -> str:
        return "failed" if self.fraction >= 1 else "recovering" if self.fraction >= 0.9 else "running"


def limit_of(workspace: Workspace) -> int | None:
    """Bytes the team may store: its own limit, or the installation's; None when there is none."""
    own = workspace.quota_bytes
    value: int = settings.WORKSPACE_QUOTA_BYTES if own is None else own
    return value or None


def usage_of(workspace: Workspace) -> Usage:
    """What the team stores now, by kind."""
    parts: dict[str, int] = {}
    for holding in holdings.all_holdings():
        for name, count in holding.used_bytes(workspace).items():
            parts[name] = parts.get(name, 0) + count
    return Usage(parts, limit_of(workspace))


def hold_room(workspace: Workspace, adding: int | None, what: str) -> None:
    """:func:`check_room` while nobody else can take the room: until the caller's transaction ends.

    Also refuses a team that was deleted in the meantime.
    """
    held = Workspace.objects.select_for_update().filter(pk=workspace.pk, closed_at__isnull=True).first()
    if held is None:
        raise Refused("This workspace was deleted.")
    check_room(held, adding, what)


def check_room(workspace: Workspace, adding: int | None, what: str) -> None:
    """Raise :class:`Refused` unless ``adding`` more bytes fit; ``what`` begins the sentence ("The file").

    With ``adding`` 0 it refuses only where nothing is left at all, with None (nothing new is stored) never.
    """
    if adding is None or limit_of(workspace) is None:
        return
    usage = usage_of(workspace)
    assert usage.limit is not None
    if usage.used + adding <= usage.limit and (adding or usage.used < usage.limit):
        return
    left = max(0, usage.limit - usage.used)
    needs = f"needs {formats.size(adding)}, and " if adding else "needs storage, and "
    raise Refused(
        f"{what} {needs}{formats.size(left)} of the workspace's {formats.size(usage.limit)} are left. Delete "
        f"datasets or models, or ask whoever runs this installation for more.",
        "file",
    )
