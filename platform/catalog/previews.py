"""The first usable rows of a dataset version, as its report keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.models import DatasetVersion
from trainers.recipes.context import prompt_text

BY_HAND = "chosen by you"


@dataclass(frozen=True)
class PreviewRow:
    """One usable row: ``messages`` is the chat up to the last question, ``raw`` the row as it stood in the file."""

    line: int | None
    messages: list[dict[str, str]]
    answer: str | None
    raw: dict[str, Any]

    @property
    def prompt(self) -> str:
        """What reward functions get as the prompt."""
        return prompt_text(self.messages)


def preview_rows(version: DatasetVersion) -> list[PreviewRow]:
    return [
        PreviewRow(row.get("line"), row["messages"], row.get("answer"), row.get("row") or {})
        for row in version.report.get("preview", [])
    ]


def column_of(version: DatasetVersion, part: str) -> str | None:
    """The column that plays a part (prompt, answer, messages, system) by the check of the file."""
    return next((column["name"] for column in version.report.get("columns", []) if column["part"] == part), None)


def columns_by_hand(version: DatasetVersion) -> dict[str, str]:
    """The columns a person had to choose, by part: a job must be told them, as their names alone do not tell."""
    return {
        column["part"]: column["name"]
        for column in version.report.get("columns", [])
        if column["part"] and column["reason"] == BY_HAND
    }
