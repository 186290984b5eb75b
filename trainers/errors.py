"""The named ways in which a run can fail, each with the next step for the person who started it.

A run error ends in the journal as ``state failed`` with ``{kind, message, advice, field}``; everything else that is
raised inside a run is ``internal``.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

ErrorKind = Literal[
    "bad_data", "reward_error", "out_of_memory", "not_finite", "base_model", "storage", "device", "internal"
]
ERROR_KINDS: tuple[str, ...] = get_args(ErrorKind)


class RunError(Exception):
    """A run cannot go on.

    ``message`` says what happened in a plain sentence, ``advice`` what to do about it, and ``field`` (a dotted path
    of the task spec, or None) which setting to look at.
    """

    def __init__(self, kind: ErrorKind, message: str, advice: str, field: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.advice = advice
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.kind, self.message, self.advice, self.field, type(self))

    def as_dict(self) -> dict[str, str | None]:
        """The ``error`` of a ``state failed`` event."""
        return {"kind": self.kind, "message": self.message, "advice": self.advice, "field": self.field}


class RewardError(RunError):
    """The reward could not be computed for a batch, or gave something that is no reward."""

    def __init__(self, message: str, advice: str, field: str | None = "reward") -> None:
        super().__init__("reward_error", message, advice, field)


class RunStopped(Exception):
    """The run was asked to stop (``RunContext.stop_requested``) and has left its work at a clean point."""


class RunPaused(Exception):
    """The run was asked to pause (``RunContext.pause_requested``); all it has done is in a checkpoint."""


def _rebuild(kind: ErrorKind, message: str, advice: str, field: str | None, cls: type[RunError]) -> RunError:
    """Unpickle an error whose constructor takes other arguments than ``Exception.args``."""
    error = cls.__new__(cls)
    RunError.__init__(error, kind, message, advice, field)
    return error
