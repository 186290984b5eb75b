"""The check of an uploaded file, as it is kept with the dataset version and drawn on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def inspect_file(path: Path, file_name: str) -> dict[str, Any]:
    from trainers.data import inspect_dataset

    return inspect_dataset(path, file_name)


def nothing_usable(report: dict[str, Any]) -> str:
    return ""
