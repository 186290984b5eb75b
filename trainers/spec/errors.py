"""How a task spec is refused: the dotted path of each field that is wrong, and a sentence for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainers.rewards.spec import COMPONENT_KINDS


class FieldError(ValueError):
    """A check over several fields that knows which field to name."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class SpecError(ValueError):
    """A task spec that cannot be run: ``errors`` is a list of ``(path, message)``, in the order of the fields."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{path or 'task'}: {message}" for path, message in errors))


def field_path(location: Sequence[int | str]) -> str:
    """The dotted path of pydantic's location, without the tags of discriminated unions: no person wrote those."""
    return ".".join(
        str(part)
        for index, part in enumerate(location)
        # The tag stands behind a place in a list; elsewhere `pattern` and `length` are fields of their own.
        if not (part in COMPONENT_KINDS and index and isinstance(location[index - 1], int))
    )


def describe_error(item: Any) -> tuple[str, str]:
    """``(path, message)`` of one of pydantic's errors, in a person's words."""
    cause = item.get("ctx", {}).get("error")
    path = field_path(item["loc"])
    if isinstance(cause, FieldError):
        return cause.path, str(cause)
    if item["type"] == "extra_forbidden":
        return path, "there is no such field"
    if isinstance(cause, ValueError):
        return path, str(cause)
    message: str = item["msg"]
    return path, message[:1].lower() + message[1:]
