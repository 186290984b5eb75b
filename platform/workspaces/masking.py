"""Hiding secret values in whatever is shown or kept: logs, samples, configurations, reports, mails."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

MASKED = "•••"
# Anything shorter is found by chance in ordinary text.
SHORTEST = 8


class Mask:
    """Replaces every occurrence of the given values, also as they stand in URLs, JSON, HTML and base64."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value)}
        # The longest first: one value may begin with another.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, text: str) -> str:
        """``text`` without the values."""
        return self._pattern.sub(MASKED, text) if self._pattern is not None else text

    def value(self, value: Any) -> Any:
        """A JSON-like value without them, keys of objects included; what holds none is the same object."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key) if isinstance(key, str) else key: self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


NOTHING = Mask()


def _forms(value: str) -> set[str]:
    """How a value can appear. A value of several lines (a key file) is hidden line by line: logs come by lines."""
    parts = {value.strip(), *(line.strip() for line in value.splitlines())}
    found: set[str] = set()
    for part in parts:
        if len(part) < SHORTEST:
            continue
        plain = part.encode("utf-8", "surrogatepass")
        found |= {
            part,
            quote(part, safe="", errors="replace"),
            quote(part, errors="replace"),
            json.dumps(part)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            html.escape(part),
            base64.b64encode(plain).decode().rstrip("="),
            base64.urlsafe_b64encode(plain).decode().rstrip("="),
        }
    return found
