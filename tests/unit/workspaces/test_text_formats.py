"""How numbers, sizes, money and times are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from workspaces import formats

NOW = datetime(2026, 11, 30, 13, 2, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7.0, "7"),
        (1_234_567, "1,234,567"),
        (0.03141, "0.0314"),
        (0.999, "0.999"),
        (12.345, "12.3"),
        (-3, "−3"),
        (-0.25, "−0.250"),
        (2e-5, "2e-5"),
        (-2.5e-5, "−2.5e-5"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
        (None, "–"),
    ],
)
def test_numbers(value: float | None, text: str):
    assert formats.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (60, "1m 00s"),
        (3849, "1h 04m 09s"),
        (90_000, "1d 01h 00m"),
        (None, "–"),
    ],
)
def test_durations(seconds: float | None, text: str):
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.031", "$0.031"),
        ("0.0004567", "$0.00046"),
        ("12.5", "$12.50"),
        ("-1234.5", "−$1,234.50"),
    ],
)
def test_money_shows_the_digits_that_matter(amount: str, text: str):
    assert formats.money(Decimal(amount)) == text


def test_sizes_and_parameters():
    assert [formats.size(n) for n in (999, 1_234_567, 5 * 10**12)] == ["999 B", "1.2 MB", "5.0 TB"]
    assert [formats.parameters(n) for n in (134_515_008, 26_880, 70e9)] == ["135M", "26.9k", "70B"]
    assert formats.percent(0.8281) == "82.8 %"


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(minutes=59, seconds=50), "1 h ago"),
        (timedelta(hours=26), "1 d ago"),
        (timedelta(days=60), "2026-10-01"),
        (timedelta(hours=-2), "in 2 h"),
    ],
)
def test_relative_times(ago: timedelta, text: str):
    assert formats.relative(NOW - ago, NOW) == text


def test_exact_times_name_their_zone_and_an_unknown_zone_is_utc():
    assert formats.exact(NOW, "Europe/Vienna") == "2026-11-30 14:02:11 CET"
    assert formats.exact(NOW, "No/Where") == formats.exact(NOW) == "2026-11-30 13:02:11 UTC"
    assert formats.exact(NOW, "../../etc/passwd").endswith("UTC")
