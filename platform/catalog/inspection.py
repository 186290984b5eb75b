"""The check of an uploaded file, as it is kept with the dataset version and drawn on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainers.data.inspection import inspect_dataset
from trainers.data.report import Problem, Report
from trainers.spec import Columns


def inspect_file(path: Path, file_name: str, columns: Columns | None = None) -> Report:
    """Read the whole file and report on it. Never raises for what the file holds."""
    with path.open("rb") as file:
        return inspect_dataset(file, file_name, columns)


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
    return f"None of the {report.rows:,} rows can be used. {said(first)}"


def said(problem: Problem) -> str:
    where = f"Line {problem.line:,}: " if problem.line is not None else ""
    return " ".join(filter(None, (f"{where}{problem.message}", problem.advice)))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "�").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value
