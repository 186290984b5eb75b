"""How the pages of jobs write what only they show."""

from __future__ import annotations

from typing import Any

from django import template

from workspaces import formats

register = template.Library()


@register.filter
def left(seconds: float | None) -> str:
    """``380 → "about 6 min left"``; nothing when unknown. The same as ``left`` of static/js/jobs/format.js."""
    if seconds is None:
        return ""
    if seconds < 60:
        return "less than a minute left"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min left"
    return f"about {minutes / 60:.{0 if minutes >= 600 else 1}f} h left"


@register.filter
def figure(value: Any, is_fraction: bool = False) -> str:
    """A measured value: a fraction as per cent, anything else as a number."""
    if isinstance(value, str):
        return value
    return formats.percent(value) if is_fraction else formats.number(value)


@register.filter
def span(bounds: tuple[float, float] | None) -> str:
    """A range of times as one says it: ``"4 – 7 min"``."""
    if bounds is None:
        return formats.MISSING
    low, high = bounds
    for limit, unit, divisor in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3600), (float("inf"), "days", 86_400)):
        if high < limit:
            first, last = (f"{value / divisor:.{1 if unit in ('h', 'days') else 0}f}" for value in (low, high))
            return f"{first} – {last} {unit}" if first != last else f"{last} {unit}"
    raise AssertionError


@register.filter
def steps_span(bounds: tuple[float, float]) -> str:
    """Seconds of a step in a range: ``"3.1 – 4.0 s a step"``."""
    low, high = (f"{value:.3g}" if value < 10 else f"{value:.0f}" for value in bounds)
    return f"{low} – {high} s a step" if low != high else f"{low} s a step"


@register.filter
def slug(path: str) -> str:
    """A spec path as an id: ``data.columns.prompt → data-columns-prompt``."""
    return path.replace(".", "-")


@register.filter
def at(items: Any, place: int) -> Any:
    """``items|at:2``: the third of a list, where two lists run side by side."""
    return items[place]


@register.filter
def raw(value: float | None) -> str:
    """A number as programs read it; nothing for what is missing or no number."""
    return repr(float(value)) if isinstance(value, int | float) else ""
