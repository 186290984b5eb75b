"""The lifecycle of a job as one table: pages, API and docs read it, and every transition is checked by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    QUEUED = "queued"
    PLACING = "placing"
    STARTING = "starting"
    RUNNING = "running"
    RECOVERING = "recovering"
    PAUSING = "pausing"
    PAUSED = "paused"
    FINISHING = "finishing"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Row:
    """How a state looks and what it allows. ``tone`` names a colour of static/css/tokens.css."""

    label: str
    icon: str
    tone: str
    meaning: str
    to: frozenset[State]
    actions: frozenset[str] = frozenset()


def _row(label: str, icon: str, tone: str, meaning: str, to: set[State], *actions: str) -> Row:
    return Row(label, icon, tone, meaning, frozenset(to), frozenset(actions))


S = State
TABLE: dict[State, Row] = {
    S.QUEUED: _row(
        "Queued",
        "clock",
        "waiting",
        "Waits for devices. Waiting costs nothing.",
        {S.PLACING, S.PAUSED, S.CANCELLED, S.FAILED},
        "cancel",
        "pause",
    ),
    S.PLACING: _row(
        "Placing",
        "pin",
        "waiting",
        "Has its devices; the training process is being sent there.",
        {S.STARTING, S.QUEUED, S.RECOVERING, S.PAUSING, S.CANCELLING, S.FAILED},
        "cancel",
        "pause",
    ),
    S.STARTING: _row(
        "Starting",
        "gear",
        "running",
        "The training process loads the model and the data.",
        {S.RUNNING, S.RECOVERING, S.PAUSING, S.FINISHING, S.CANCELLING, S.FAILED},
        "cancel",
        "pause",
    ),
    S.RUNNING: _row(
        "Running",
        "play",
        "running",
        "Trains.",
        {S.RECOVERING, S.PAUSING, S.FINISHING, S.CANCELLING, S.FAILED},
        "cancel",
        "pause",
    ),
    S.RECOVERING: _row(
        "Recovering",
        "recover",
        "recovering",
        "Has left its process or node, and goes on elsewhere from its newest checkpoint. Waiting costs nothing.",
        {S.PLACING, S.PAUSED, S.CANCELLED, S.FAILED},
        "cancel",
        "pause",
    ),
    S.PAUSING: _row(
        "Pausing",
        "pause",
        "waiting",
        "Finishes its step, writes a checkpoint, then gives its devices back.",
        {S.PAUSED, S.FINISHING, S.CANCELLING, S.FAILED},
        "cancel",
    ),
    S.PAUSED: _row(
        "Paused",
        "pause",
        "waiting",
        "Holds no devices and costs nothing; goes on from its checkpoint when resumed.",
        {S.QUEUED, S.CANCELLED, S.FAILED},
        "cancel",
        "resume",
    ),
    S.FINISHING: _row(
        "Finishing",
        "flag",
        "running",
        "Training is over; the model, the report and the bill are being made.",
        {S.SUCCEEDED, S.CANCELLED, S.FAILED},
        "cancel",
    ),
    S.CANCELLING: _row(
        "Cancelling",
        "stop",
        "cancelled",
        "The training process is being stopped.",
        {S.CANCELLED},
    ),
    S.SUCCEEDED: _row("Succeeded", "check", "succeeded", "Done: the model and the report are there.", set(), "clone"),
    S.FAILED: _row(
        "Failed", "cross", "failed", "Stopped by an error; the page says which and what to do.", set(), "clone"
    ),
    S.CANCELLED: _row("Cancelled", "stop", "cancelled", "Stopped by a person.", set(), "clone"),
}

TERMINAL = frozenset(state for state, row in TABLE.items() if not row.to)
# In these states no process of the job exists, so a cancel or a pause takes effect at once.
WITHOUT_PROCESS = frozenset({S.QUEUED, S.RECOVERING, S.PAUSED, S.FINISHING})
ACTIVE = frozenset(S) - TERMINAL


class TransitionError(Exception):
    """A change of state that the table does not allow, or that another process was first to make."""


def check(source: State, target: State) -> None:
    """Raise :class:`TransitionError` unless the table allows ``source`` → ``target``."""
    if target not in TABLE[source].to:
        raise TransitionError(
            f"a job that is {TABLE[source].label.lower()} cannot become {TABLE[target].label.lower()}"
        )
