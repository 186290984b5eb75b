"""How numbers, sizes, money and times are written, everywhere the same: pages, mails and reports."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, thousands separated, scientific only where it must be.

    ``1234567 → "1,234,567"``, ``0.03141 → "0.0314"``, ``2e-5 → "2e-5"``; None is a dash, NaN and infinities say so.
    """
    if value is None:
        return MISSING
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    size = abs(value)
    if size < 1e-3 or size >= 1e12:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}".replace("-", "−", 1 if value < 0 else 0)
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{min(places, 6)}f}".replace("-", "−")


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as per cent: ``0.8281 → "82.8 %"``."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    return f"{fraction * 100:.{digits}f} %".replace("-", "−")


def size(count: float | None) -> str:
    """Bytes in decimal units: ``1_234_567 → "1.2 MB"``."""
    if count is None:
        return MISSING
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            return f"{int(count)} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def parameters(count: float | None) -> str:
    """A model's size as people say it: ``134_515_008 → "135M"``."""
    if count is None:
        return MISSING
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            return f"{count / limit:.3g}{suffix}"
    return f"{count:.0f}"


def duration(seconds: float | None) -> str:
    """``3849 → "1h 04m 09s"``; under ten seconds with one decimal."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    seconds = max(0.0, float(seconds))
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    total = round(seconds)
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02d}h {minutes:02d}m"
    if hours:
        return f"{hours}h {minutes:02d}m {secs:02d}s"
    return f"{minutes}m {secs:02d}s" if minutes else f"{secs}s"


def money(amount: Decimal | float | None, currency: str = "USD") -> str:
    """An amount with the cents that matter: ``0.031 → "$0.031"``, ``12.5 → "$12.50"``."""
    if amount is None:
        return MISSING
    value = Decimal(str(amount))
    shown = abs(value)
    places = 2 if shown >= 1 or shown == 0 else min(6, max(2, 1 - shown.adjusted()))
    sign = "−" if value < 0 else ""
    if currency == "USD":
        return f"{sign}${shown:,.{places}f}"
    return f"{sign}{shown:,.{places}f} {currency}"


def relative(moment: datetime, now: datetime) -> str:
    """``"3 min ago"``, ``"in 2 h"``; what lies more than four weeks off is a date."""
    seconds = (now - moment).total_seconds()
    ago = seconds >= 0
    away = abs(seconds)
    if away < 45:
        return "just now" if ago else "in a moment"
    for limit, unit, divisor in ((3600, "min", 60), (86_400, "h", 3600), (28 * 86_400, "d", 86_400)):
        if away < limit - divisor / 2:
            count = max(1, round(away / divisor))
            return f"{count} {unit} ago" if ago else f"in {count} {unit}"
    return f"{moment:%Y-%m-%d}"


def exact(moment: datetime, zone_name: str = "") -> str:
    """``"2026-11-30 14:02:11 CET"`` in the given zone (UTC when empty or unknown)."""
    return f"{moment.astimezone(zone(zone_name)):%Y-%m-%d %H:%M:%S %Z}"


def zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")
