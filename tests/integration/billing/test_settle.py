"""The ledger equals the leases, to the microsecond, at the price of each second."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import factories
import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import LedgerLine, Price, Usage
from billing.selectors import bill_of, cost_of
from billing.services import amount, price_ensure, priced, seconds_between, usage_settle
from compute.models import Grant, Lease, Request

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def leases(seconds: float, devices: int = 2) -> tuple[uuid.UUID, list[Lease]]:
    node = factories.node(devices=devices)
    price_ensure(pool=node.pool)
    holder = uuid.uuid4()
    request = Request.objects.create(
        holder_kind="job", holder_id=holder, epoch=1, device_kind="cpu", devices=devices, tier="reserved"
    )
    grant = Grant.objects.create(request=request)
    end = START + timedelta(seconds=seconds)
    return holder, [
        Lease.objects.create(grant=grant, node=node, device=device, during=DateTimeTZRange(START, end))
        for device in range(devices)
    ]


def settle(project, holder, rows, lost_after=None) -> Decimal:
    return usage_settle(
        leases=rows, project=project, used_by_kind="job", used_by_id=holder, epoch=1, lost_after=lost_after
    )


def test_work_is_charged_per_device_and_second(project):
    holder, rows = leases(3600.5)
    Price.objects.update(per_device_hour=Decimal("0.36"))
    assert settle(project, holder, rows) == 2 * Decimal("0.36005")
    assert cost_of("job", holder).total == Decimal("0.7201")
    (line,) = bill_of("job", holder)
    assert (line["device_seconds"], line["amount"]) == (Decimal("7201.0"), Decimal("0.7201"))


def test_settling_twice_charges_once(project):
    holder, rows = leases(100)
    assert settle(project, holder, rows) == settle(project, holder, rows)
    assert LedgerLine.objects.count() == 2


def test_lost_work_is_shown_and_free(project):
    holder, rows = leases(100)
    assert settle(project, holder, rows, lost_after=START) == 0
    (line,) = bill_of("job", holder)
    assert (line["device_seconds"], line["amount"]) == (200, 0) and "free" in line["what"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(1, 10**10), kept=st.integers(-(10**9), 2 * 10**10))
def test_work_up_to_the_checkpoint_is_charged_and_the_rest_is_free(project, length, kept):
    from django.db import transaction

    with transaction.atomic():
        holder, rows = leases(length / 10**6)
        until = START + timedelta(microseconds=kept)
        cost = settle(project, holder, rows, lost_after=until)
        assert settle(project, holder, rows, lost_after=until) == cost
        seconds = {}
        for usage in Usage.objects.all():
            seconds[usage.category] = seconds.get(usage.category, 0) + usage.seconds
        charged = max(0, min(kept, length))
        assert sum(seconds.values()) == 2 * Decimal(length) / 10**6, "every second of the lease is one or the other"
        assert seconds.get("work", 0) == 2 * Decimal(charged) / 10**6
        lines = LedgerLine.objects.all()
        assert sum(line.seconds for line in lines) == seconds.get("work", 0)
        assert sum(line.amount for line in lines) == cost == cost_of("job", holder).total
        transaction.set_rollback(True)


def test_a_line_never_changes(project):
    holder, rows = leases(10)
    settle(project, holder, rows)
    line = LedgerLine.objects.first()
    line.amount = Decimal(0)
    with pytest.raises(TypeError, match="never changes"):
        line.save()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length=st.integers(1, 10**11),
    changes=st.lists(
        st.tuples(st.integers(-(10**10), 2 * 10**11), st.integers(0, 10**9)), max_size=5, unique_by=lambda c: c[0]
    ),
)
def test_price_changes_cut_a_lease_without_gap_or_overlap(project, length, changes):
    from django.db import transaction

    with transaction.atomic():
        pool = factories.node().pool
        price_ensure(pool=pool)
        for offset, millionths in changes:
            Price.objects.create(
                pool=pool,
                starts_at=START + timedelta(microseconds=offset),
                per_device_hour=Decimal(millionths) / 10**6,
            )
        end = START + timedelta(microseconds=length)
        pieces = list(priced(pool, START, end))
        assert sum(seconds for _, seconds in pieces) == seconds_between(START, end)
        for instant in (START, START + timedelta(microseconds=length - 1)):
            in_force = pool.prices.filter(starts_at__lte=instant).order_by("-starts_at").first()
            assert in_force in [price for price, _ in pieces]
        transaction.set_rollback(True)


def test_the_clock_going_back_charges_nothing():
    assert seconds_between(START, START - timedelta(hours=1)) == 0


def test_half_a_millionth_is_rounded_to_the_even_one():
    assert amount(Decimal("1.8"), Decimal("0.001")) == Decimal("0.000000")
    assert amount(Decimal("5.4"), Decimal("0.001")) == Decimal("0.000002")
