"""What the form shows of a dataset version: its columns, its check, its first prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.models import DatasetVersion

PROBLEMS = 5
PROMPTS = 3


@dataclass(frozen=True)
class ReportSummary:
    """``problems`` are the first rows that cannot be used, as sentences; ``further`` how many more there are."""

    rows: int
    usable: int
    problems: list[str]

    @property
    def bad(self) -> int:
        return self.rows - self.usable

    @property
    def further(self) -> int:
        return max(0, self.bad - len(self.problems)) if self.problems else 0


def dataset_label(version: DatasetVersion) -> str:
    return f"{version} · {version.usable_rows:,} rows"


def report_summary(version: DatasetVersion) -> ReportSummary:
    problems = [
        f"Line {problem.get('line')}: {problem.get('message')}" for problem in version.report.get("problems", [])
    ]
    return ReportSummary(version.rows, version.usable_rows, problems[:PROBLEMS])


def prompts_of(version: DatasetVersion) -> list[str]:
    """The first prompts, as the check of the data read them."""
    return [str(prompt) for prompt in version.report.get("prompts", [])[:PROMPTS]]


def column_options(version: DatasetVersion | None, part: str, chosen: Any) -> list[tuple[str, str]]:
    """The columns to choose from for a part (prompt, answer ...); the first leaves the choice to the platform."""
    report = version.report if version else {}
    found = (report.get("mapping") or {}).get(part)
    first = f"Found by itself: {found}" if found else "Found by itself, if there is one"
    names = [str(name) for name in report.get("columns", [])]
    if chosen and chosen not in names:
        names.append(str(chosen))
    return [("", first), *((name, name) for name in names)]
