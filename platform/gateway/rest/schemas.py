"""What goes over the wire. Times are ISO 8601 in UTC, amounts of money decimal text."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

T = TypeVar("T")
Number = float | str | None


class Input(Schema):
    model_config = ConfigDict(extra="forbid")


class FieldProblem(Schema):
    path: str = Field(description="Dotted path of the field; empty for the whole.")
    message: str


class Problem(Schema):
    code: str = Field(description="Name of the kind of error, for programs.")
    message: str = Field(description="A sentence for people.")
    fields: list[FieldProblem]
    request_id: str = Field(description="Name of this request in the server's log.")


class Refusal(Schema):
    error: Problem


class Page(Schema, Generic[T]):
    items: list[T]
    next: str | None = Field(None, description="Send it as `cursor` for the next page; null at the end.")


class Named(Schema):
    id: UUID
    name: str


class WorkspaceOut(Named):
    slug: str


class PersonOut(Schema):
    id: UUID
    email: str
    name: str


class TokenOut(Schema):
    name: str
    prefix: str
    expires_at: datetime | None
    scopes: list[str] = Field(description="What it may be used for: read, write, train, manage.")


class ServerOut(Schema):
    version: str


class MeOut(Schema):
    user: PersonOut
    workspace: WorkspaceOut
    role: str = Field(description="What this token may do: viewer, editor, admin or owner.")
    token: TokenOut
    server: ServerOut


class ProjectIn(Input):
    name: str
    description: str = ""


class ProjectOut(Named):
    description: str
    workspace: WorkspaceOut
    created_at: datetime


class DatasetVersionOut(Schema):
    id: UUID
    dataset: Named
    number: int
    source: str = Field(description="How a task spec names it: `dataset:<id>@<number>`.")
    file_name: str
    sha256: str
    size: int
    rows: int
    usable_rows: int
    columns: dict[str, str] = Field(description="Which column plays which part (`prompt`, `answer` ...).")
    created_at: datetime
    created_by: str | None


class DatasetReportOut(DatasetVersionOut):
    report: dict[str, Any] = Field(description="What the check of the file found: columns, and what is wrong where.")


class DatasetOut(Named):
    description: str
    project: Named
    created_at: datetime
    versions: list[DatasetVersionOut] = Field(description="The newest first.")


class RewardIn(Input):
    project: UUID
    name: str
    description: str = ""
    spec: dict[str, Any] = Field(description='`{"components": [{"kind": "numeric"}, ...]}`')


class RewardVersionOut(Schema):
    id: UUID
    reward: Named
    number: int
    source: str = Field(description="How a submission names it: `reward:<id>@<number>`.")
    spec: dict[str, Any]
    created_at: datetime
    created_by: str | None


class RewardOut(Named):
    description: str
    project: Named
    created_at: datetime
    versions: list[RewardVersionOut] = Field(description="The newest first.")


class BaseModelOut(Schema):
    id: UUID
    name: str
    title: str
    parameters: int
    license: str
    origin: str


class FileOut(Schema):
    name: str
    size: int
    sha256: str


class FormatOut(Schema):
    size: int
    files: list[FileOut]


class ModelVersionBrief(Schema):
    id: UUID
    number: int
    base_model: str
    job: UUID | None
    merged: str = Field(description="How the merged weights stand: none, making, ready or failed.")
    evaluation: dict[str, Any]
    aliases: list[str] = Field(description="The aliases that point to this version.")
    notes: str = Field(description="Markdown.")
    made_with: str = Field(description="The platform's version that made it.")
    created_at: datetime


class AliasIn(Input):
    version: int = Field(ge=1, le=2_000_000_000, description="Number of the version that it is to point to.")
    expected: int | None = Field(
        None,
        ge=0,
        description="Number of the version that it must point to now (0: it must be new); else nothing moves.",
    )


class AliasMoveOut(Schema):
    id: int
    name: str
    from_number: int | None = Field(description="Null where the alias was new.")
    to_number: int | None = Field(description="Null where it was removed.")
    actor: str
    at: datetime


class AliasMovesOut(Schema):
    items: list[AliasMoveOut]


class ModelIn(Input):
    description: str | None = Field(None, max_length=20_000, description="Markdown. Left out: it stays.")
    tags: list[str] | None = Field(None, max_length=20, description="Left out: they stay.")


class ModelVersionIn(Input):
    notes: str = Field(max_length=20_000, description="Markdown.")


class ModelOut(Named):
    project: Named
    description: str = Field(description="Markdown.")
    tags: list[str]
    aliases: dict[str, int] = Field(description="Each alias, and the number of the version that it points to.")
    created_at: datetime
    versions: list[ModelVersionBrief] = Field(description="The newest first.")


class FormatsOut(Schema):
    adapter: FormatOut
    merged: FormatOut | None


class ModelVersionOut(ModelVersionBrief):
    name: str
    model: Named
    merged_error: str = Field(description="Why the merged weights could not be made.")
    formats: FormatsOut


class JobIn(Input):
    project: UUID
    spec: dict[str, Any] = Field(description="A task spec; docs/task-spec.md lists its fields.")
    idempotency_key: str = Field(
        min_length=1, max_length=200, description="Chosen by you. The same key in a project always means the same job."
    )
    reward: str | None = Field(
        None, max_length=100, description="A registered reward, `reward:<id>@<number>`, in place of `spec.reward`."
    )


class CancelIn(Input):
    reason: str = Field("", max_length=500)


class JobBrief(Schema):
    id: UUID
    name: str
    project: Named
    state: str
    state_label: str
    ended: bool
    reason: str
    recipe: str
    base_model: str
    step: int
    total_steps: int | None
    fraction: float
    eta_s: float | None
    submitted_by: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    url: str = Field(description="The job's page.")


class CostOut(Schema):
    total: str
    currency: str


class WaitingOut(Schema):
    position: int | None
    why: str


class LatestOut(Schema):
    step: int | None
    value: Number = Field(description="A number, or `NaN`, `Infinity`, `-Infinity` as text.")


class JobModelOut(Schema):
    id: UUID
    name: str
    number: int


class JobOut(JobBrief):
    meaning: str = Field(description="What the state means.")
    actions: list[str]
    advice: str
    failure_kind: str
    phase: str
    attempt: int
    waiting: WaitingOut | None
    dataset: str
    reward: str | None
    result: dict[str, Any] | None
    cost: CostOut
    latest: dict[str, LatestOut]
    model_version: JobModelOut | None
    report: bool
    cursor: str = Field(description="Where the job's events stand; send it as `after`.")
    spec: dict[str, Any]


class EventOut(Schema):
    attempt: int
    seq: int
    t: float = Field(description="Unix seconds.")
    kind: str = Field(description="metric or log.")
    step: int | None = None
    values: dict[str, Number] | None = None
    level: str | None = None
    text: str | None = None


class TimelineOut(Schema):
    id: int
    at: float
    actor: str
    from_state: str
    to_state: str
    reason: str
    attempt: int | None


class EventsOut(Schema):
    cursor: str
    more: bool = Field(description="There is more already; ask again at once.")
    state: str
    ended: bool
    events: list[EventOut]
    timeline: list[TimelineOut] = Field(description="All changes of state, whatever the cursor.")


class MetricsOut(Schema):
    metrics: dict[str, list[list[Number]]] = Field(description="`{key: [[step, value, active_s, tokens], ...]}`")


class LogLineOut(Schema):
    attempt: int
    seq: int
    t: float
    level: str
    text: str


def refusals(*statuses: int) -> dict[int, type[Refusal]]:
    """The error answers of an endpoint, for the schema; 401, 422 and 429 can always come."""
    return dict.fromkeys((401, *statuses, 422, 429), Refusal)
