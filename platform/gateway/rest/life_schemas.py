"""Bodies of the operations that pause and resume a job and look after its checkpoints."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from gateway.rest.schemas import Input


class ResumeIn(Input):
    reason: str = Field(default="", max_length=300)
    amount: Decimal | None = Field(
        default=None, gt=0, le=Decimal("1e9"), decimal_places=6, description="New `budget.amount`."
    )
    minutes: float | None = Field(default=None, gt=0, le=1e7, description="New `budget.minutes`.")


class KeepIn(Input):
    kept: bool = True


class AttemptOut(Schema):
    number: int
    node: str
    started_at: datetime
    ended_at: datetime | None
    first_step: int = Field(description="The step it began at; 0 is the beginning.")
    last_step: int = Field(description="The newest step it has done.")
    resumed_from: str | None = Field(description="The checkpoint it went on from, if that is still there.")
    outcome: str = Field(description="running, succeeded, failed, cancelled, paused, lost or not_started.")
    detail: str


class CheckpointOut(Schema):
    id: UUID
    name: str
    step: int
    attempt: int
    created_at: datetime = Field(description="When the state it holds was taken.")
    size: int = Field(description="Bytes.")
    final: bool
    kept: bool = Field(description="Never deleted to make room for newer ones.")
    damaged: bool = Field(description="Found unusable when a run wanted to go on from it.")
    format: str
    can_start: bool = Field(description="A new job can start from it: `model.start_from` = `checkpoint:<id>`.")
