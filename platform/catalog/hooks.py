"""What the apps above know of the use of a model version, asked before one is deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.models import ModelVersion

InUse = Callable[[Sequence[ModelVersion]], str]
_in_use: dict[str, InUse] = {}


def on_delete_asked(name: str, hook: InUse) -> None:
    """``hook`` gets the versions that are to go, and gives the sentence why they cannot, or an empty one."""
    _in_use[name] = hook


def why_in_use(versions: Sequence[ModelVersion]) -> str:
    """The first reason not to delete these versions; empty when there is none."""
    return next((why for hook in _in_use.values() if (why := hook(versions))), "")
