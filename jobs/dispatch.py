"""From a grant to a running driver."""

from __future__ import annotations

from uuid import UUID


def grant_offered(grant_id: UUID) -> None:
    """Wake the dispatcher for a committed grant."""
    from jobs.tasks import dispatch_grant

    dispatch_grant.delay(str(grant_id))
