"""Who gets which devices. First come, first served per kind and tier; a better policy replaces ``_order`` and ``_fit``.

One tick runs at a time in the whole installation (a Postgres advisory lock). It writes the facts, grants and leases for
named devices, and wakes the holders after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Q
from django.utils import timezone

from compute import hooks
from compute.models import DeviceKind, Grant, Lease, Node, Pool, Request, Tier

# For so long a request waits for a node that it need not avoid; then any will do.
AVOID_FOR = timedelta(seconds=60)
TICK_LOCK = 0x74756E65  # "tune": one number for one lock in the whole database


class FoundNode(Protocol):
    """A machine as Ray reports it."""

    @property
    def id(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def alive(self) -> bool: ...
    @property
    def cpus(self) -> float: ...
    @property
    def gpus(self) -> float: ...


def nodes_sync(*, found: Iterable[FoundNode], tier: Tier = Tier.RESERVED) -> None:
    """Bring the table of nodes in line with what Ray reports. A node that is gone keeps its row, and its leases."""
    now = timezone.now()
    alive = set()
    for node in found:
        if not node.alive:
            continue
        kind = DeviceKind.GPU if node.gpus else DeviceKind.CPU
        pool, _ = Pool.objects.get_or_create(
            device_kind=kind, tier=tier, defaults={"name": f"{kind.upper()} {Tier(tier).label}"}
        )
        alive.add(node.id)
        Node.objects.update_or_create(
            ray_id=node.id,
            defaults={
                "pool": pool,
                "address": node.address,
                "devices": int(node.gpus or node.cpus),
                "alive": True,
                "seen_at": now,
            },
        )
    Node.objects.filter(alive=True).exclude(ray_id__in=alive).update(alive=False)


@transaction.atomic
def request_create(
    *,
    holder_kind: str,
    holder_id: UUID,
    epoch: int,
    device_kind: str,
    devices: int,
    tier: str,
    since: datetime | None = None,
    not_before: datetime | None = None,
    avoid: Iterable[str] = (),
    why: str = "Waits for the next look at free devices.",
) -> Request:
    """Ask for devices. ``since``: its place in the queue counts from there (default: now). ``not_before``: it is passed
    over until then. ``avoid``: Ray ids of nodes to stay away from while others could serve it."""
    return Request.objects.create(
        holder_kind=holder_kind,
        holder_id=holder_id,
        epoch=epoch,
        device_kind=device_kind,
        devices=devices,
        tier=tier,
        since=since or timezone.now(),
        not_before=not_before,
        avoid=list(avoid),
        why=why,
    )


def request_withdraw(*, holder_kind: str, holder_id: UUID) -> int:
    """Take back what this holder still waits for; returns how many requests that were."""
    return Request.objects.filter(holder_kind=holder_kind, holder_id=holder_id, state=Request.State.WAITING).update(
        state=Request.State.WITHDRAWN, position=None, why=""
    )


def tick() -> list[UUID]:
    """Give free devices to waiting requests; returns the grants made. Does nothing while another tick runs."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("select pg_try_advisory_xact_lock(%s)", [TICK_LOCK])
            if not cursor.fetchone()[0]:
                return []
        ripe = Q(not_before=None) | Q(not_before__lte=timezone.now())
        waiting = _order(list(Request.objects.select_for_update().filter(ripe, state=Request.State.WAITING)))
        free = _free_devices() if waiting else {}
        blocked: dict[tuple[str, str], int] = {}
        grants = []
        for request in waiting:
            queue = (request.device_kind, request.tier)
            ahead = blocked.get(queue, 0)
            chosen = None if ahead else _fit(request, free)
            if chosen is None:
                blocked[queue] = ahead + 1
                _explain(request, ahead + 1, free)
            else:
                grants.append(_grant(request, *chosen, free))
    for grant in grants:
        hooks.grant_offered(grant.request.holder_kind, grant.pk)
    return [grant.pk for grant in grants]


def _order(waiting: list[Request]) -> list[Request]:
    return sorted(waiting, key=lambda request: (request.since, request.created_at, request.pk))


def _free_devices() -> dict[Node, list[int]]:
    held: dict[UUID, set[int]] = {}
    for node_id, device in Lease.objects.filter(during__upper_inf=True).values_list("node_id", "device"):
        held.setdefault(node_id, set()).add(device)
    nodes = Node.objects.filter(alive=True).select_related("pool")
    return {node: [d for d in range(node.devices) if d not in held.get(node.pk, ())] for node in nodes}


def _suits(node: Node, request: Request) -> bool:
    return node.pool.device_kind == request.device_kind and node.pool.tier == request.tier


def _fit(request: Request, free: dict[Node, list[int]]) -> tuple[Node, list[int]] | None:
    """Best fit on one node: the one that keeps the fewest devices free afterwards."""
    large = [node for node in free if _suits(node, request) and node.devices >= request.devices]
    wanted = _not_avoided(request, large)
    able = [node for node in wanted if len(free[node]) >= request.devices]
    if not able:
        return None
    node = min(able, key=lambda node: (len(free[node]), node.address, str(node.pk)))
    return node, free[node][: request.devices]


def _not_avoided(request: Request, nodes: list[Node]) -> list[Node]:
    """The nodes without those to stay away from; all of them where there is no other, or none came free in time."""
    others = [node for node in nodes if node.ray_id not in request.avoid]
    begun = request.not_before or request.created_at
    return others if others and timezone.now() - begun < AVOID_FOR else nodes


def _grant(request: Request, node: Node, devices: list[int], free: dict[Node, list[int]]) -> Grant:
    now = timezone.now()
    grant = Grant.objects.create(request=request, renewed_at=now)
    Lease.objects.bulk_create(
        [Lease(grant=grant, node=node, device=device, during=DateTimeTZRange(now, None)) for device in devices]
    )
    request.state, request.position, request.why = Request.State.GRANTED, None, ""
    request.save(update_fields=["state", "position", "why"])
    free[node] = [device for device in free[node] if device not in devices]
    return grant


def _explain(request: Request, position: int, free: dict[Node, list[int]]) -> None:
    """Write why it waits, as a sentence, and only when that changed."""
    kind, tier = DeviceKind(request.device_kind).label, Tier(request.tier).label
    noun = kind if request.devices == 1 else f"{kind}s"
    nodes = [node for node in free if _suits(node, request)]
    largest = max((node.devices for node in nodes), default=0)
    now_free = max((len(free[node]) for node in nodes), default=0)
    if not nodes:
        why = f"Needs {request.devices} {tier} {noun}, and the cluster has none now."
    elif largest < request.devices:
        why = f"Needs {request.devices} {tier} {noun} on one node, and the largest node has {largest}."
    else:
        why = f"Needs {request.devices} {tier} {noun}, {now_free} free now; position {position}."
    if (request.why, request.position) != (why, position):
        Request.objects.filter(pk=request.pk).update(why=why, position=position)


def grant_claim(*, grant_id: UUID) -> bool:
    """Take an offered grant; True for exactly one caller."""
    return bool(
        Grant.objects.filter(pk=grant_id, state=Grant.State.OFFERED).update(
            state=Grant.State.CLAIMED, claimed_at=timezone.now()
        )
    )


@transaction.atomic
def grant_release(*, grant_id: UUID, reason: str) -> list[Lease]:
    """End a grant and its leases now; idempotent. Returns its leases.

    Only for holders whose processes are confirmed dead, or whose node is.
    """
    grant = Grant.objects.select_for_update().get(pk=grant_id)
    if grant.state != Grant.State.RELEASED:
        now = timezone.now()
        grant.state, grant.released_at, grant.release_reason = Grant.State.RELEASED, now, reason[:300]
        grant.save(update_fields=["state", "released_at", "release_reason"])
        for lease in grant.leases.select_for_update().filter(during__upper_inf=True):
            # A clock set back must not make a negative interval, and Postgres forgets the ends of an empty one.
            lease.during = DateTimeTZRange(lease.during.lower, max(now, lease.during.lower + timedelta(microseconds=1)))
            lease.save(update_fields=["during"])
    return list(grant.leases.select_related("node__pool"))
