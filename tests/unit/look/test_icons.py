"""Every icon that a page or a state names is in the sprite."""

from __future__ import annotations

import re
from pathlib import Path

from jobs.states import TABLE

ROOT = Path(__file__).parents[3]
SPRITE = set(re.findall(r'<symbol id="([\w-]+)"', (ROOT / "static/vendor/icons/icons.svg").read_text()))


def test_the_sprite_has_every_icon_of_the_templates():
    named = {
        (path.name, name)
        for path in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r'{% icon "([\w-]+)"', path.read_text())
    }
    assert named
    assert {(page, name) for page, name in named if name not in SPRITE} == set()


def test_the_sprite_has_every_icon_of_a_state():
    assert {row.icon for row in TABLE.values()} <= SPRITE
