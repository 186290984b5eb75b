"""Reading the state of the cluster."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from compute.models import Node, Request


def waiting(holder_kind: str, holder_id: UUID) -> dict[str, Any] | None:
    """Why a holder waits and at which place in its queue; None when it does not wait."""
    request = Request.objects.filter(holder_kind=holder_kind, holder_id=holder_id, state=Request.State.WAITING).first()
    return None if request is None else {"position": request.position, "why": request.why}


def capacity() -> dict[tuple[str, str], int]:
    """Devices of the largest living node by ``(device kind, tier)``: what a job can ask for at most."""
    found: dict[tuple[str, str], int] = {}
    for node in Node.objects.filter(alive=True).select_related("pool"):
        key = (node.pool.device_kind, node.pool.tier)
        found[key] = max(found.get(key, 0), node.devices)
    return found
