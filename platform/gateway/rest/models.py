"""/models and /model-versions: what jobs made, and its files."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.conf import settings
from django.db.models import Prefetch
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router, Status
from pydantic import Field

from catalog.archive import zip_stream
from catalog.models import ModelVersion, TrainedModel
from catalog.selectors import model_versions_visible_to, models_visible_to
from gateway.rest.auth import caller
from gateway.rest.errors import RestError
from gateway.rest.paging import Cursor, Limit, page
from gateway.rest.schemas import ModelOut, ModelVersionOut, Page, refusals
from jobs.merging import merged_ask
from trainers.storage import Storage, StorageError, StoredFile
from workspaces import access
from workspaces.downloads import download, file_stream, plain_name
from workspaces.models import Role, User

router = Router(tags=["models"])
Format = Literal["adapter", "merged"]
FormatQuery = Annotated[Format, Field(description="adapter: for PEFT, small. merged: whole weights, for transformers.")]
BYTES = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
ZIP = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}


@router.get(
    "/models", response={200: Page[ModelOut], **refusals()}, summary="Trained models", operation_id="model_list"
)
def model_list(
    request: HttpRequest, project: UUID | None = None, limit: Limit = 50, cursor: Cursor = None
) -> dict[str, Any]:
    rows = _models(caller(request))
    if project:
        rows = rows.filter(project_id=project)
    items, following = page(rows, cursor, limit)
    return {"items": [_model(item) for item in items], "next": following}


@router.get(
    "/models/{uuid:model_id}",
    response={200: ModelOut, **refusals(404)},
    summary="One model with its versions",
    operation_id="model_get",
)
def model_get(request: HttpRequest, model_id: UUID) -> dict[str, Any]:
    return model_shown(caller(request), model_id)


def model_shown(user: User, model_id: UUID) -> dict[str, Any]:
    """The model as the API shows it. Raises ``Http404``."""
    return _model(access.get(_models(user), model_id, user))


@router.get(
    "/model-versions/{uuid:version_id}",
    response={200: ModelVersionOut, **refusals(404)},
    summary="One version with its files",
    operation_id="model_version_get",
)
def model_version_get(request: HttpRequest, version_id: UUID) -> dict[str, Any]:
    return version_full(version_of(caller(request), version_id))


@router.post(
    "/model-versions/{uuid:version_id}/merge",
    response={202: ModelVersionOut, **refusals(403, 404)},
    summary="Have the merged weights made; changes nothing when they are there or being made",
    operation_id="model_version_merge",
)
def model_version_merge(request: HttpRequest, version_id: UUID) -> Status:
    user = caller(request)
    merged_ask(version=version_of(user, version_id, Role.EDITOR), actor=user)
    return Status(202, version_full(version_of(user, version_id)))


def version_full(version: ModelVersion) -> dict[str, Any]:
    merged = _files(version, "merged") if _is_merged(version) else None
    return {
        **_version_brief(version),
        "name": version.model.name,
        "model": version.model,
        "merged_error": version.merged_error,
        "formats": {"adapter": _format(_files(version, "adapter")), "merged": _format(merged) if merged else None},
    }


@router.get(
    "/model-versions/{uuid:version_id}/download",
    response={200: None, **refusals(404, 409, 503)},
    summary="All files of a version as one zip",
    operation_id="model_version_download",
    openapi_extra={"responses": {200: ZIP}},
)
def model_version_download(request: HttpRequest, version_id: UUID, format: FormatQuery = "adapter") -> HttpResponseBase:
    version = version_of(caller(request), version_id)
    files = _files(version, format)
    storage, folder = Storage(settings.STORAGE_URL), _folder(version, format)
    for file in files:
        storage.size(f"{folder}/{file['name']}")
    name = f"{version.model.name}-v{version.number}-{format}"
    return download(
        request,
        zip_stream(storage, folder, [file["name"] for file in files], plain_name(name)),
        f"{name}.zip",
        "application/zip",
    )


@router.get(
    "/model-versions/{uuid:version_id}/files/{format}/{path:name}",
    response={200: None, 206: None, **refusals(404, 409, 416, 503)},
    summary="One file of a version; `Range: bytes=N-` continues a download",
    operation_id="model_version_file",
    openapi_extra={"responses": {200: BYTES, 206: BYTES}},
)
def model_version_file(request: HttpRequest, version_id: UUID, format: Format, name: str) -> HttpResponseBase:
    version = version_of(caller(request), version_id)
    # Only what the version lists is served: a path is looked up, never followed.
    file = next((item for item in _files(version, format) if item["name"] == name), None)
    if file is None:
        raise Http404("This version has no such file.")
    storage, key = Storage(settings.STORAGE_URL), f"{_folder(version, format)}/{name}"
    # Asked before the first byte goes out: a refusal after that could only be a broken connection.
    size = storage.size(key)
    if size != file["size"]:
        raise StorageError("damaged", f"{key} has {size} bytes instead of {file['size']}")
    start = _range_start(request.headers.get("Range", ""), size)
    response = download(request, file_stream(storage, key, start), name.rpartition("/")[2])
    response["Content-Length"] = str(size - start)
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = f'"{file["sha256"]}"'
    if start:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
    return response


def _range_start(header: str, size: int) -> int:
    """First byte asked for. Only ``bytes=N-`` is understood; every other range gets the whole file, as HTTP allows."""
    unit, _, span = header.partition("=")
    first, dash, last = span.strip().partition("-")
    if unit.strip() != "bytes" or not dash or last or not (first.isascii() and first.isdigit() and len(first) < 19):
        return 0
    if int(first) >= size > 0:
        raise RestError(416, f"The file has {size} bytes; there is nothing from byte {first} on.")
    return int(first) if size else 0


def _models(user: User) -> Any:
    versions = ModelVersion.objects.select_related("base_model").prefetch_related("aliases").order_by("-number")
    return models_visible_to(user).prefetch_related(Prefetch("versions", queryset=versions))


def version_of(user: User, version_id: UUID, need: Role = Role.VIEWER) -> ModelVersion:
    return access.get(model_versions_visible_to(user), version_id, user, need)


def _is_merged(version: ModelVersion) -> bool:
    return version.merged == ModelVersion.Merged.READY


def _folder(version: ModelVersion, format: str) -> str:
    return version.merged_uri if format == "merged" else version.checkpoint.uri


def _files(version: ModelVersion, format: str) -> list[StoredFile]:
    if format == "adapter":
        return cast("list[StoredFile]", version.checkpoint.files)
    if not _is_merged(version):
        raise RestError(409, "The merged weights of this version are not there yet; POST …/merge has them made.")
    return Storage(settings.STORAGE_URL).read_manifest(version.merged_uri)


def _format(files: list[StoredFile]) -> dict[str, Any]:
    return {"size": sum(item["size"] for item in files), "files": files}


def _model(model: TrainedModel) -> dict[str, Any]:
    return {
        "id": model.pk,
        "name": model.name,
        "project": model.project,
        "description": model.description,
        "tags": model.tags,
        "aliases": {alias.name: row.number for row in model.versions.all() for alias in row.aliases.all()},
        "created_at": model.created_at,
        "versions": [_version_brief(version) for version in model.versions.all()],
    }


def _version_brief(version: ModelVersion) -> dict[str, Any]:
    return {
        "id": version.pk,
        "number": version.number,
        "base_model": version.base_model.name,
        "job": version.made_by_id if version.made_by_kind == "job" else None,
        "merged": version.merged or "none",
        "evaluation": version.evaluation,
        "aliases": [alias.name for alias in version.aliases.all()],
        "notes": version.notes,
        "made_with": version.made_with,
        "created_at": version.created_at,
    }
