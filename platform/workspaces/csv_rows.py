"""Rows as CSV for spreadsheets, which run what looks like a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_rows(rows: Iterable[Iterable[Any]]) -> bytes:
    """These rows in UTF-8; no text in them can be taken for a formula."""
    text = io.StringIO()
    csv.writer(text).writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def _harmless(cell: Any) -> Any:
    """A spreadsheet runs what begins like a formula (OWASP, "CSV Injection"); an apostrophe makes it text."""
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA) else cell
