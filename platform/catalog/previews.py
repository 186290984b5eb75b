"""The first usable rows of a dataset version, as its report keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.models import DatasetVersion
from trainers.data.columns import BY_HAND
from trainers.recipes.context import prompt_text


@dataclass(frozen=True)
class PreviewRow:
    """One usable row: ``messages`` is the chat up to the last question, ``raw`` the row as it stood in the file.

    A pair has what the better and the worse answer say after the question; plain text has a ``text`` and no question.
    """

    line: int | None
    messages: list[dict[str, str]]
    answer: str | None
    raw: dict[str, Any]
    chosen: list[dict[str, str]] | None = None
    rejected: list[dict[str, str]] | None = None
    text: str | None = None

    @property
    def prompt(self) -> str:
        """What reward functions get as the prompt; a plain text itself."""
        return self.text if self.text is not None else prompt_text(self.messages)


def preview_rows(version: DatasetVersion) -> list[PreviewRow]:
    return [
        PreviewRow(
            line=row.get("line"),
            messages=row["messages"],
            answer=row.get("answer"),
            raw=row.get("row") or {},
            chosen=row.get("chosen"),
            rejected=row.get("rejected"),
            text=row.get("text"),
        )
        for row in version.report.get("preview", [])
    ]


def column_of(version: DatasetVersion, part: str) -> str | None:
    """The column that plays a part (prompt, answer, messages ...) by the check of the file."""
    return next((column["name"] for column in version.report.get("columns", []) if column["part"] == part), None)


def columns_by_hand(version: DatasetVersion) -> dict[str, str]:
    """The columns a person had to choose, by part: a job must be told them, as their names alone do not tell."""
    return {
        column["part"]: column["name"]
        for column in version.report.get("columns", [])
        if column["part"] and column["reason"] == BY_HAND
    }
