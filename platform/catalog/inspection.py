"""The check of an uploaded file, as it is kept with the dataset version and drawn on its page."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from django.conf import settings
from tokenizers import Tokenizer

from trainers.data.inspection import TokenCounter, inspect_dataset
from trainers.data.report import Problem, Report
from trainers.spec import DEFAULT_MODEL, Columns


def inspect_file(path: Path, file_name: str, columns: Columns | None = None) -> Report:
    """Read the whole file and report on it. Never raises for what the file holds."""
    with path.open("rb") as file:
        return inspect_dataset(file, file_name, columns, _token_counter())


def _token_counter() -> TokenCounter | None:
    """The tokenizer of the default model, if that was prepared on this machine; else tokens are guessed."""
    found = next(iter(sorted(Path(settings.MODEL_CACHE).glob(f"{DEFAULT_MODEL}-*/tokenizer.json"))), None)
    if found is None:
        return None
    tokenizer = _tokenizer(str(found))
    return TokenCounter(DEFAULT_MODEL, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids))


@functools.lru_cache(maxsize=1)
def _tokenizer(path: str) -> Tokenizer:
    return Tokenizer.from_file(path)


def as_stored(report: Report) -> dict[str, Any]:
    """The report as the database can hold it: JSON in Postgres knows no NUL and no lone surrogate."""
    stored: dict[str, Any] = _storable(report.model_dump(mode="json"))
    return stored


def nothing_usable(report: Report) -> str:
    """Why no row of a file can be used, as a sentence or two."""
    first = next((problem for problem in report.problems if problem.severity == "error"), None)
    if first is None:
        return "The file holds no row."
    if not report.rows or first.line is None:
        return said(first)
    place = "Row" if report.format == "parquet" else "Line"
    return f"None of the {report.rows:,} rows can be used. {said(first, place)}"


def said(problem: Problem, place: str = "Line") -> str:
    where = f"{place} {problem.line:,}: " if problem.line is not None else ""
    return " ".join(filter(None, (f"{where}{problem.message}", problem.advice)))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "�").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value
