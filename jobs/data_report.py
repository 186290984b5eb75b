"""What the form shows, and asks, of a dataset version: its columns, its check, its first prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from catalog.models import DatasetVersion
from catalog.previews import column_of, columns_by_hand, preview_rows

PARTS = ("prompt", "answer", "messages", "system", "chosen", "rejected", "text")
PROBLEMS = 4
PROMPTS = 3


@dataclass(frozen=True)
class ReportSummary:
    """``problems`` are the first rows that cannot be used, as sentences; ``further`` how many more there are."""

    rows: int
    usable: int
    problems: list[str]
    notes: list[str]

    @property
    def bad(self) -> int:
        return self.rows - self.usable

    @property
    def further(self) -> int:
        return max(0, self.bad - len(self.problems))


def dataset_label(version: DatasetVersion) -> str:
    return f"{version} · {version.usable_rows:,} rows"


def report_summary(version: DatasetVersion) -> ReportSummary:
    errors = [row for row in version.report.get("problems", []) if row["severity"] == "error"]
    place = "Row" if version.report.get("format") == "parquet" else "Line"
    problems = [f"{place} {row['line']:,}: {row['message']}" if row["line"] else row["message"] for row in errors]
    return ReportSummary(version.rows, version.usable_rows, problems[:PROBLEMS], version.report.get("notes", []))


def prompts_of(version: DatasetVersion) -> list[str]:
    """The first prompts, as the check of the data read them."""
    return [row.prompt for row in preview_rows(version)[:PROMPTS]]


def column_names(version: DatasetVersion | None) -> list[str]:
    return [column["name"] for column in version.report.get("columns", [])] if version else []


def column_options(version: DatasetVersion | None, part: str, chosen: Any) -> list[tuple[str, str]]:
    """The columns to choose from for a part (prompt, answer ...); the first leaves the choice to the platform."""
    found = column_of(version, part) if version and part not in columns_by_hand(version) else None
    first = f"Automatic: {found}" if found else "Automatic"
    names = column_names(version)
    if chosen and chosen not in names:
        names.append(str(chosen))
    return [("", first), *((name, name) for name in names)]


def chosen_column(version: DatasetVersion | None, part: str, typed: str, *, dataset_changed: bool) -> str:
    """The column to show for a part. Another dataset begins with its own choice; what was typed stays if it fits."""
    if not dataset_changed or version is None:
        return typed
    if typed and typed in column_names(version):
        return typed
    return columns_by_hand(version).get(part, "")


def data_errors(version: DatasetVersion, value: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    """``(path, message)`` of what would end the job at once. ``value(path)`` is what the form holds.

    The check of the file speaks of the columns it used; for others it says nothing.
    """
    checked = all(value(f"data.columns.{part}") in ("", column_of(version, part)) for part in PARTS)
    if not checked or not version.report:
        return
    bad, allowed = version.rows - version.usable_rows, value("data.max_bad_rows") or "0"
    if bad and allowed.isdecimal() and int(allowed) < bad:
        yield (
            "data.max_bad_rows",
            f"{bad:,} of {version.rows:,} rows cannot be used. Write {bad} here to leave them out, "
            "or correct the file and upload it again.",
        )
    report, recipe = version.report, value("recipe")
    texts = report.get("texts", 0)
    if recipe == "sft" and not (report.get("with_answer") or texts):
        yield "data.source", "No row of this dataset has an answer to imitate; choose another, or learn from a reward."
    if recipe == "dpo" and not report.get("pairs"):
        yield "data.source", "No row of this dataset has a chosen and a rejected answer; dpo learns from such pairs."
    if recipe not in ("sft", "dpo") and texts and texts == version.usable_rows:
        yield "data.source", "This dataset is plain text without questions; it can only be imitated (sft)."
