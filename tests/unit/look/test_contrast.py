"""The colours of static/css/tokens.css can be read, in both themes (WCAG 2.1 AA)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[3] / "static/css/tokens.css").read_text()
TONES = ("running", "waiting", "recovering", "succeeded", "failed", "cancelled")


def tokens(theme: str) -> dict[str, str]:
    """Every colour of a theme: those of the light one, and in the dark what it redefines."""
    found: dict[str, str] = {}
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", CSS):
        if f'"{theme}"' in selector or (":root" in selector and '"' not in selector):
            found |= dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", body))
    return found


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


TEXT = [
    *((ink, ground) for ink in ("ink", "ink-soft") for ground in ("ground", "surface", "sunken", "hover")),
    *(("accent", ground) for ground in ("ground", "surface", "sunken", "hover")),
    ("ink", "accent-soft"),
    ("accent-ink", "accent"),
    ("accent-ink", "accent-strong"),
    *((tone, ground) for tone in TONES for ground in (f"{tone}-soft", "surface", "ground")),
]
EDGES = [
    *(("edge", ground) for ground in ("ground", "surface")),
    *(("focus", ground) for ground in ("ground", "surface")),
    *((f"series-{n}", "surface") for n in (1, 3, 4, 6, 7, 8)),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_stands_out_from_its_ground(theme: str, ink: str, ground: str):
    colours = tokens(theme)
    assert contrast(colours[ink], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("line", "ground"), EDGES)
def test_edges_and_curves_can_be_seen(theme: str, line: str, ground: str):
    colours = tokens(theme)
    assert contrast(colours[line], colours[ground]) >= 3


def test_both_themes_define_the_same_colours():
    assert set(tokens("light")) == set(tokens("dark"))
