"""Placement: named devices, first come first served, nothing held twice."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import factories
import pytest
from django.db import IntegrityError, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.utils import timezone

from compute import hooks
from compute.models import Grant, Lease, Node, Request
from compute.services import grant_claim, grant_release, nodes_sync, request_create, request_withdraw, tick

pytestmark = pytest.mark.django_db


def want(devices: int = 1, kind: str = "cpu", tier: str = "reserved") -> Request:
    return request_create(
        holder_kind="test", holder_id=uuid.uuid4(), epoch=1, device_kind=kind, devices=devices, tier=tier
    )


def test_it_grants_named_devices_and_wakes_the_holder(monkeypatch):
    woken = []
    monkeypatch.setitem(hooks._granted, "test", woken.append)
    node = factories.node(devices=4)
    want(3)
    grants = tick()
    assert woken == grants and len(grants) == 1
    assert sorted(Lease.objects.values_list("node_id", "device")) == [(node.pk, 0), (node.pk, 1), (node.pk, 2)]


def test_a_holder_that_cannot_be_woken_keeps_its_grant(monkeypatch):
    def broken(_):
        raise ConnectionError("no broker")

    monkeypatch.setitem(hooks._granted, "test", broken)
    factories.node()
    want()
    assert len(tick()) == 1
    assert Grant.objects.get().state == "offered"


def test_first_come_first_served_even_past_one_that_would_fit():
    factories.node(devices=2)
    first, big, small = want(1), want(2), want(1)
    tick()
    states = {row.pk: row for row in Request.objects.all()}
    assert [states[row.pk].state for row in (first, big, small)] == ["granted", "waiting", "waiting"]
    assert states[big.pk].why == "Needs 2 reserved CPU cores, 1 free now; position 1."
    assert states[small.pk].position == 2


def test_another_queue_is_not_held_up():
    factories.node(devices=1)
    factories.node(devices=1, kind="gpu")
    want(5)
    gpu = want(1, kind="gpu")
    tick()
    gpu.refresh_from_db()
    assert gpu.state == "granted"


@pytest.mark.parametrize(
    ("devices", "kind", "words"),
    [(3, "cpu", "the largest node has 2"), (1, "gpu", "the cluster has none now")],
)
def test_it_says_why_something_can_never_be_placed(devices, kind, words):
    factories.node(devices=2)
    request = want(devices, kind)
    tick()
    request.refresh_from_db()
    assert words in request.why


def test_released_devices_go_to_the_next():
    factories.node(devices=2)
    want(2)
    second = want(2)
    (grant,) = tick()
    assert tick() == []
    assert grant_claim(grant_id=grant) and not grant_claim(grant_id=grant)
    leases = grant_release(grant_id=grant, reason="done")
    assert all(lease.during.upper for lease in leases)
    assert grant_release(grant_id=grant, reason="again")[0].during == leases[0].during
    assert len(tick()) == 1
    second.refresh_from_db()
    assert second.state == "granted"


def test_the_database_refuses_to_lease_a_device_twice():
    factories.node(devices=1)
    want()
    tick()
    lease = Lease.objects.get()
    other = Grant.objects.create(request=want())
    with pytest.raises(IntegrityError, match="device_held_once"), transaction.atomic():
        Lease.objects.create(grant=other, node=lease.node, device=0, during=DateTimeTZRange(timezone.now(), None))


def test_a_withdrawn_request_is_not_granted():
    factories.node()
    request = want()
    assert request_withdraw(holder_kind="test", holder_id=request.holder_id) == 1
    assert tick() == []


def found(id: str, cpus: float = 2, gpus: float = 0, alive: bool = True) -> SimpleNamespace:
    return SimpleNamespace(id=id, address="10.1.1.1", alive=alive, cpus=cpus, gpus=gpus)


def test_nodes_come_and_go_with_ray():
    nodes_sync(found=[found("a"), found("b", gpus=8)])
    assert sorted(Node.objects.values_list("ray_id", "devices", "pool__device_kind")) == [
        ("a", 2, "cpu"), ("b", 8, "gpu"),
    ]  # fmt: skip
    nodes_sync(found=[found("a", alive=False), found("b", gpus=8)])
    assert not Node.objects.get(ray_id="a").alive
    want()
    assert tick() == [], "nothing is placed on a dead node"
