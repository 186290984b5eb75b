"""What a recipe needs from the world, as protocols: its rows, its scorer, and the run it is part of.

The data, reward and runtime packages implement them; a recipe knows none of those packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from trainers.errors import RewardError, RunError, RunStopped
from trainers.spec import TaskSpec

__all__ = [
    "Message",
    "RewardError",
    "Row",
    "RunContext",
    "RunError",
    "RunStopped",
    "Score",
    "ScoredInput",
    "Scorer",
    "prompt_text",
]

Message = Mapping[str, str]
"""One chat message: ``{"role": "system" | "user" | "assistant", "content": text}``."""


class Row(Protocol):
    """One usable row of a dataset, its columns already mapped."""

    @property
    def prompt_messages(self) -> Sequence[Message]:
        """The chat up to and including the last question, the system message first; empty for a plain text."""
        ...

    @property
    def answer(self) -> str | None:
        """The reference answer, for rewards."""
        ...

    @property
    def messages(self) -> Sequence[Message] | None:
        """The whole chat with the assistant's turns, for SFT; None when the row has no answer to imitate."""
        ...

    @property
    def chosen(self) -> Sequence[Message] | None:
        """Of a preference pair, the whole chat with the better answer: the prompt messages, then the answer's."""
        ...

    @property
    def rejected(self) -> Sequence[Message] | None:
        """The same with the worse answer; None where ``chosen`` is."""
        ...

    @property
    def text(self) -> str | None:
        """Plain text to be imitated as it is, without any chat around it; the row then has no prompt messages."""
        ...

    @property
    def row(self) -> Mapping[str, Any]:
        """The row as it stood in the file."""
        ...

    @property
    def key(self) -> str:
        """Short SHA-256 of the prompt messages: equal prompts have equal keys."""
        ...


class ScoredInput(NamedTuple):
    """One completion to be scored. ``prompt`` is what :func:`prompt_text` makes of the row's messages.

    ``tokens`` is the length of the completion as the model sampled it; None where no model did.
    """

    prompt: str
    completion: str
    answer: str | None
    row: Mapping[str, Any]
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A finite ``reward``, the value of each component by name, and whether the completion counts as right."""

    reward: float
    parts: Mapping[str, float]
    accurate: bool


class Scorer(Protocol):
    """Scores completions. Called with a whole batch at once, from one thread."""

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        """One score per row, in order. Raises :class:`RewardError` when that cannot be done."""
        ...


class RunContext(Protocol):
    """The run a recipe is part of: what it was asked to do, where it reports, and when it must stop."""

    @property
    def spec(self) -> TaskSpec: ...

    @property
    def scratch(self) -> Path:
        """A folder of this attempt's own on local disk."""
        ...

    @property
    def cache_folder(self) -> Path | None:
        """Where results that can be made again are kept for later runs on this host; None: nowhere."""
        ...

    def emit(self, kind: str, step: int | None = None, **fields: Any) -> None:
        """Append one event to the journal. Cheap; the thread that writes checkpoints calls it too."""
        ...

    def stop_requested(self) -> bool:
        """Whether the run should end now. Cheap: asked between micro-batches and decoding steps."""
        ...

    def pause_requested(self) -> bool:
        """Whether the run should write a checkpoint and end at the next step. Cheap."""
        ...

    def publish_folder(self, local: Path, name: str) -> dict[str, Any]:
        """Upload a folder to storage: ``{"uri": str, "files": [{"name", "size", "sha256"}]}``. From any thread.

        Raises ``RunError("storage", ...)`` when storage does not take it.
        """
        ...


def prompt_text(messages: Sequence[Message]) -> str:
    """The prompt as a person or a reward function reads it: without the system message and without chat markup.

    A single question is its text alone; a conversation is one ``role: text`` paragraph per message.
    """
    turns = [message for message in messages if message["role"] != "system"]
    if len(turns) == 1:
        return turns[0]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in turns)
