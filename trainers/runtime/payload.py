"""What passes between the control plane and a driver: the launch payload, and the answers of a driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from trainers.recipes.interval import USUAL_MTBF_S
from trainers.runtime.events import Event


class Folder(BaseModel):
    """A folder in storage: below which key its files lie, and what they are (name, size, sha256), if that is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(min_length=1, max_length=1000)
    files: list[dict[str, Any]] | None = None


class Launch(BaseModel):
    """All that a driver must know to run one attempt. It never asks the database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempt_id: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_-]+$")
    epoch: int = Field(ge=0, description="Fencing token: part of every path in storage that the attempt writes.")
    name: str = Field(min_length=1, max_length=200, description="Name of the driver actor in Ray's namespace.")
    spec: dict[str, Any] = Field(description="The task spec, as JSON.")
    storage_url: str
    dataset_key: str = Field(description="Key of the dataset's file in storage.")
    dataset_file: str = Field(description="Its original name; the ending tells the format.")
    evaluation_key: str | None = None
    evaluation_file: str | None = None
    base_model: str = Field(description="A known model's name, or the absolute path of a model folder.")
    start_from: Folder | None = Field(None, description="The adapter (PEFT) that training goes on from.")
    resume_from: tuple[Folder, ...] = Field(
        (), description="Published checkpoints of this job, newest first: the run goes on from the first that is whole."
    )
    mtbf_s: float = Field(
        USUAL_MTBF_S, gt=0, description="Seconds until a machine like this one fails, on average; times checkpoints."
    )
    teacher_model: str | None = Field(None, description="The base model that teaches, named as base_model is.")
    teacher_adapter: Folder | None = Field(None, description="The adapter (PEFT) of the teacher.")
    cache_dir: str = Field(description="Folder for prepared base models, on the driver's host.")
    work_dir: str = Field(description="Folder for journals and scratch files, on the driver's host.")
    threads: int = Field(ge=1, le=4096, description="Leased CPUs: torch and OpenMP use exactly so many threads.")
    device: Literal["cpu", "gpu"] = "cpu"
    secrets: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Values of the workspace's secrets that the spec names. Kept in memory, never in the journal.",
    )
    gpu_indexes: tuple[int, ...] = Field((), description="Leased GPUs; empty: whatever Ray assigns.")
    niceness: int = Field(10, ge=0, le=19, description="The driver yields to the control plane by at least this much.")


class DriverStatus(TypedDict):
    """How a driver stands. ``state`` is new, running, pausing, stopping, finishing, or what it has ended as: succeeded,
    failed, cancelled or paused.

    A closing state is shown only once everything the run said is on disk and, unless ``shipped`` is False, in storage.
    """

    attempt_id: str
    epoch: int
    state: str
    last_seq: int
    shipped_seq: int
    shipped: bool
    journal_error: str | None
    shipping_error: str | None
    alive_at: float
    pid: int
    node_id: str


class PollAnswer(DriverStatus):
    """A page of the journal after the caller's cursor, and how the driver stands. ``more``: ask again at once."""

    events: list[Event]
    more: bool


def attempt_folder(work_dir: str | Path, attempt_id: str) -> Path:
    """Where an attempt keeps its journal and scratch files on its host."""
    return Path(work_dir) / attempt_id


def checkpoint_prefix(attempt_id: str, epoch: int) -> str:
    """Where an attempt's checkpoints lie in storage."""
    return f"checkpoints/{attempt_id}/{epoch}"
