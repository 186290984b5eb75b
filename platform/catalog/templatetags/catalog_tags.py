"""Small parts of the pages of datasets."""

from __future__ import annotations

import json
import math
from typing import Any

from django import template

register = template.Library()
STRIP = 100.0


@register.filter
def as_json(value: Any) -> str:
    """A value as indented JSON, its letters readable."""
    return json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def words(kind: str) -> str:
    """``empty_answer`` → ``empty answer``"""
    return kind.replace("_", " ")


@register.inclusion_tag("catalog/length_strip.html")
def length_strip(part: str, lengths: dict[str, Any]) -> dict[str, Any]:
    """The spread of one part's lengths on a logarithmic strip: smallest, median, 95th percentile, largest."""
    low, high = math.log1p(lengths["smallest"]), math.log1p(lengths["largest"])

    def place(length: float) -> float:
        return STRIP if high <= low else round((math.log1p(length) - low) / (high - low) * STRIP, 1)

    middle, p95 = place(lengths["median"]), place(lengths["p95"])
    if high <= low:
        middle = p95 = STRIP / 2
    return {"part": part, "lengths": lengths, "middle": middle, "p95": p95, "bars": _bars(lengths.get("bars", []))}


def _bars(bars: list[dict[str, int]]) -> list[dict[str, Any]]:
    """A histogram's bars with ``top`` and ``height`` of 40; one that is not empty is always seen."""
    most = max((bar["count"] for bar in bars), default=0)
    drawn = []
    for bar in bars if len(bars) > 1 else []:
        height = max(1.0, round(40 * bar["count"] / most, 1)) if bar["count"] else 0.0
        drawn.append({**bar, "top": 40 - height, "height": height})
    return drawn
