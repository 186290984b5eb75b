"""How the pages write what a model wrote: nothing in it acts, and nothing in it hides."""

from __future__ import annotations

import re
from typing import Any

from django import template

register = template.Library()
BAR = 48.0
# Marks that turn the direction of what is around them or are not seen at all; control characters but tab and line end.
_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)


@register.filter
def shown(text: Any) -> str:
    """The text with what would not be seen made visible: ``\\x1b`` is ``␛``, a right-to-left override ``[U+202E]``."""
    return _HIDDEN.sub(_visible, str(text))


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"


@register.filter
def bar(value: Any, largest: float) -> float:
    """The width, of 48, of the bar of a part of a reward, beside the largest of the page."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value or not largest:
        return 0.0
    return round(min(1.0, abs(value) / largest) * BAR, 1)
