"""The first usable rows of a dataset version, as its report keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.models import DatasetVersion
from trainers.recipes.context import prompt_text


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
