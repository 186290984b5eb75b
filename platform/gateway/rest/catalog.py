"""/datasets, /rewards and /base-models."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest
from ninja import File, Form, Router, Status
from ninja.files import UploadedFile
from pydantic import Field, ValidationError

from catalog import services
from catalog.models import BaseModel, Dataset, DatasetVersion, RewardConfig, RewardVersion
from catalog.selectors import base_models_usable, dataset_versions_visible_to, datasets_visible_to, rewards_visible_to
from gateway.rest.auth import caller
from gateway.rest.errors import RestError
from gateway.rest.paging import Cursor, Limit, page
from gateway.rest.schemas import (
    BaseModelOut,
    DatasetOut,
    DatasetReportOut,
    DatasetVersionOut,
    Page,
    RewardIn,
    RewardOut,
    RewardVersionOut,
    refusals,
)
from trainers.spec import Columns, describe_error
from workspaces import access
from workspaces.models import Project, Role, User
from workspaces.selectors import projects_of

router = Router(tags=["catalog"])
Sha256 = Annotated[str | None, Field(pattern="^[0-9a-fA-F]{64}$", description="Only datasets with this very file.")]


def project_for(user: User, project_id: UUID, need: Role = Role.EDITOR) -> Project:
    """A project in which the caller may do what needs this role."""
    return access.get(projects_of(user), project_id, user, need)


@router.get(
    "/datasets", response={200: Page[DatasetOut], **refusals()}, summary="Datasets", operation_id="dataset_list"
)
def dataset_list(
    request: HttpRequest,
    project: UUID | None = None,
    sha256: Sha256 = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> dict[str, Any]:
    rows = datasets_visible_to(caller(request))
    if project:
        rows = rows.filter(project_id=project)
    if sha256:
        rows = rows.filter(pk__in=DatasetVersion.objects.filter(sha256=sha256.lower()).values("dataset_id"))
    items, following = page(rows, cursor, limit)
    return {"items": [_dataset(item) for item in items], "next": following}


@router.post(
    "/datasets",
    response={201: DatasetVersionOut, **refusals(400, 403, 404, 413, 503)},
    summary="Upload a file of rows; the next version of the dataset of that name",
    operation_id="dataset_upload",
)
def dataset_add(
    request: HttpRequest,
    project: Form[UUID],
    file: File[UploadedFile],
    name: Form[str] = "",
    description: Form[str] = "",
    columns: Form[str] = "",
) -> Status:
    """`columns`: which column plays which part, as JSON (`{"prompt": "Question"}`), where their names do not tell."""
    user = caller(request)
    target = project_for(user, project)
    parts = _columns(columns)
    if file.size is not None and file.size > settings.UPLOAD_MAX_BYTES:
        raise RestError(413, f"The file has {file.size:,} bytes; at most {settings.UPLOAD_MAX_BYTES:,} are accepted.")
    version = services.dataset_upload(
        project=target,
        name=name,
        file=file,
        file_name=file.name or "",
        actor=user,
        description=description,
        columns=parts,
    )
    return Status(201, _dataset_version(version))


def _columns(text: str) -> Columns | None:
    """The columns a caller named; None when all are to be found by their names."""
    if not text.strip():
        return None
    try:
        columns = Columns.model_validate_json(text)
    except ValidationError as error:
        fields = [describe_error(item) for item in error.errors()]
        named = [(f"columns.{path}" if path else "columns", message) for path, message in fields]
        raise RestError(400, "The columns cannot be read.", fields=named) from None
    return columns if columns.model_dump(exclude_none=True) else None


@router.get(
    "/datasets/{uuid:dataset_id}",
    response={200: DatasetOut, **refusals(404)},
    summary="One dataset with its versions",
    operation_id="dataset_get",
)
def dataset_get(request: HttpRequest, dataset_id: UUID) -> dict[str, Any]:
    user = caller(request)
    return _dataset(access.get(datasets_visible_to(user), dataset_id, user))


@router.get(
    "/datasets/{uuid:dataset_id}/versions/{int:number}",
    response={200: DatasetReportOut, **refusals(404)},
    summary="One version of a dataset with the report of its check",
    operation_id="dataset_report",
)
def dataset_report(request: HttpRequest, dataset_id: UUID, number: int) -> dict[str, Any]:
    rows = dataset_versions_visible_to(caller(request))
    version = rows.filter(dataset_id=dataset_id, number=min(number, 2**31 - 1)).first()
    if version is None:
        raise Http404("There is no such version of a dataset, or it is not yours to see.")
    return {**_dataset_version(version), "report": version.report}


@router.get("/rewards", response={200: Page[RewardOut], **refusals()}, summary="Rewards", operation_id="reward_list")
def reward_list(
    request: HttpRequest, project: UUID | None = None, limit: Limit = 50, cursor: Cursor = None
) -> dict[str, Any]:
    rows = rewards_visible_to(caller(request))
    if project:
        rows = rows.filter(project_id=project)
    items, following = page(rows, cursor, limit)
    return {"items": [_reward(item) for item in items], "next": following}


@router.post(
    "/rewards",
    response={201: RewardVersionOut, **refusals(400, 403, 404)},
    summary="Register a reward; the next version of the reward of that name",
    operation_id="reward_save",
)
def reward_add(request: HttpRequest, body: RewardIn) -> Status:
    user = caller(request)
    target = project_for(user, body.project)
    version = services.reward_save(
        project=target, name=body.name, spec=body.spec, actor=user, description=body.description or None
    )
    return Status(201, _reward_version(version))


@router.get(
    "/rewards/{uuid:reward_id}",
    response={200: RewardOut, **refusals(404)},
    summary="One reward with its versions",
    operation_id="reward_get",
)
def reward_get(request: HttpRequest, reward_id: UUID) -> dict[str, Any]:
    user = caller(request)
    return _reward(access.get(rewards_visible_to(user), reward_id, user))


@router.get(
    "/base-models",
    response={200: Page[BaseModelOut], **refusals()},
    summary="Models one can start from",
    operation_id="base_model_list",
)
def base_model_list(request: HttpRequest, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    rows: list[BaseModel]
    rows, following = page(base_models_usable(), cursor, limit)
    return {"items": rows, "next": following}


def _dataset(dataset: Dataset) -> dict[str, Any]:
    return {
        "id": dataset.pk,
        "name": dataset.name,
        "description": dataset.description,
        "project": dataset.project,
        "created_at": dataset.created_at,
        "versions": [_dataset_version(version, dataset) for version in dataset.versions.all()],
    }


def _dataset_version(version: DatasetVersion, dataset: Dataset | None = None) -> dict[str, Any]:
    fields = ("number", "source", "file_name", "sha256", "size", "rows", "usable_rows", "created_at")
    return {
        "id": version.pk,
        "dataset": dataset or version.dataset,
        "created_by": version.created_by.email if version.created_by else None,
        "columns": {
            column["part"]: column["name"]
            for column in version.report.get("columns", [])
            if column["part"] not in (None, "context")
        },
        **{name: getattr(version, name) for name in fields},
    }


def reward_source(version: RewardVersion) -> str:
    """How a submission names a registered reward."""
    return f"reward:{version.reward_id}@{version.number}"


def _reward(reward: RewardConfig) -> dict[str, Any]:
    return {
        "id": reward.pk,
        "name": reward.name,
        "description": reward.description,
        "project": reward.project,
        "created_at": reward.created_at,
        "versions": [_reward_version(version, reward) for version in reward.versions.all()],
    }


def _reward_version(version: RewardVersion, reward: RewardConfig | None = None) -> dict[str, Any]:
    return {
        "id": version.pk,
        "reward": reward or version.reward,
        "number": version.number,
        "source": reward_source(version),
        "spec": version.spec,
        "created_at": version.created_at,
        "created_by": version.created_by.email if version.created_by else None,
    }
