"""Writes of datasets, rewards and base models."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, Any

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError
from pydantic import ValidationError

from catalog.inspection import as_stored, inspect_file, nothing_usable
from catalog.intake import lock_object, spooled
from catalog.models import BaseModel, Dataset, DatasetVersion, RewardConfig, RewardVersion
from catalog.naming import checked_name, find_or_make, next_number
from trainers.data.report import Report
from trainers.rewards.spec import RewardSpec
from trainers.spec import Columns, describe_error
from trainers.storage import Storage, StorageError, hash_file
from workspaces.downloads import plain_name
from workspaces.errors import Refused
from workspaces.models import Project, User
from workspaces.quota import check_room, hold_room
from workspaces.services import audit

logger = logging.getLogger(__name__)


class DatasetRefused(Refused):
    """A file without a single usable row; ``report`` says line by line why."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message, "file")
        self.report = report


def dataset_upload(
    *,
    project: Project,
    name: str,
    file: IO[bytes],
    file_name: str,
    actor: User | None,
    description: str = "",
    columns: Columns | None = None,
) -> DatasetVersion:
    """Check a file, store it byte for byte, and make it the next version of the dataset ``name`` (empty: the file's).

    ``columns`` names the columns that their names alone do not tell. The newest version again when it has the same
    bytes and the same columns. Bad rows are reported, not refused: raises
    :class:`DatasetRefused` only when no row is usable, :class:`Refused` for a bad name or a file that is too large,
    ``StorageError`` when storage does not take it.
    """
    file_name = plain_name(file_name)
    name = checked_name(name or PurePath(file_name).stem, "dataset")
    with spooled(file, settings.UPLOAD_MAX_BYTES) as local:
        report = inspect_file(local, file_name, columns)
        if not report.ready:
            raise DatasetRefused(nothing_usable(report), report)
        stored = as_stored(report)
        adding = _adding(project, local)
        check_room(project.workspace, adding, "The file")
        storage = Storage(settings.STORAGE_URL)
        with local.open("rb") as stream:
            key, sha256, size = storage.put_content(stream)
        with transaction.atomic(), _stored(key):
            # Another upload may have taken the room meanwhile, or the team may have been deleted.
            hold_room(project.workspace, adding, "The file")
            lock_object(key)
            # Between storing and this lock the same bytes may have been removed with another dataset.
            if not storage.exists(key):
                storage.put_file(key, local)
            dataset, made = find_or_make(Dataset, project, name)
            if description and description != dataset.description:
                dataset.description = description
                dataset.save(update_fields=["description"])
                if not made:
                    audit(workspace=project.workspace, actor=actor, action="dataset.describe", obj=dataset)
            newest = None if made else dataset.versions.first()
            if newest is not None and newest.sha256 == sha256 and newest.report.get("columns") == stored["columns"]:
                return newest
            version = DatasetVersion.objects.create(
                dataset=dataset,
                number=next_number(dataset.versions),
                file_name=file_name,
                object_key=key,
                sha256=sha256,
                size=size,
                rows=report.rows,
                usable_rows=report.usable,
                report=stored,
                created_by=actor,
            )
            audit(workspace=project.workspace, actor=actor, action="dataset.upload", obj=version)
    return version


def _adding(project: Project, local: Path) -> int | None:
    """How many bytes the file adds to what the team stores; None when it has the same bytes already."""
    sha256, size = hash_file(local)
    known = DatasetVersion.objects.filter(dataset__project__workspace=project.workspace_id, sha256=sha256)
    return None if known.exists() else size


@contextmanager
def _stored(key: str) -> Iterator[None]:
    """Remove the stored object again when nothing comes to refer to it."""
    try:
        yield
    except Refused:
        _forget_objects([key])
        raise


@transaction.atomic
def dataset_delete(*, dataset: Dataset, actor: User) -> None:
    """Remove a dataset with all its versions, and what storage holds for them alone.

    Raises :class:`Refused` when jobs used it.
    """
    audit(workspace=dataset.project.workspace, actor=actor, action="dataset.delete", obj=dataset)
    keys = list(dataset.versions.values_list("object_key", flat=True))
    try:
        with transaction.atomic():
            dataset.delete()
    except ProtectedError:
        raise Refused("Jobs used this dataset, so it stays: their results refer to it.") from None
    transaction.on_commit(lambda: _forget_objects(keys))


def _forget_objects(keys: list[str]) -> None:
    """Remove stored files that no dataset version refers to any more."""
    storage = Storage(settings.STORAGE_URL)
    for key in set(keys):
        with transaction.atomic():
            lock_object(key)
            if not DatasetVersion.objects.filter(object_key=key).exists():
                try:
                    storage.delete(key)
                except StorageError:
                    logger.exception("%s is not used any more, but storage did not let it go", key)


class RewardRefused(Refused):
    """A reward that cannot be used; ``errors`` are ``(path, message)``, as ``("components.0.pattern", "...")``."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in errors), "spec")


def reward_check(value: Any) -> RewardSpec:
    """Check a JSON-like value as a reward. Raises :class:`RewardRefused` with the path of every field that is wrong."""
    try:
        return RewardSpec.model_validate(value)
    except ValidationError as error:
        raise RewardRefused([_describe(item) for item in error.errors()]) from None


@transaction.atomic
def reward_save(
    *,
    project: Project,
    name: str,
    spec: dict[str, Any] | RewardSpec,
    actor: User | None,
    description: str | None = None,
) -> RewardVersion:
    """The next version of the reward ``name``; the newest one again when nothing in it has changed.

    Raises :class:`RewardRefused` for a spec that cannot be used, :class:`Refused` for a bad name.
    """
    checked = spec if isinstance(spec, RewardSpec) else reward_check(spec)
    reward, made = find_or_make(RewardConfig, project, checked_name(name, "reward"))
    if description is not None and description != reward.description:
        reward.description = description
        reward.save(update_fields=["description"])
        if not made:
            audit(workspace=project.workspace, actor=actor, action="reward.describe", obj=reward)
    content = checked.model_dump(mode="json")
    newest = reward.versions.first()
    if newest is not None and newest.spec == content:
        return newest
    version = RewardVersion.objects.create(
        reward=reward, number=next_number(reward.versions), spec=content, created_by=actor
    )
    audit(workspace=project.workspace, actor=actor, action="reward.save", obj=version)
    return version


def reward_name_free(*, project: Project, name: str) -> None:
    """Raise :class:`Refused` when the project has a reward of this name; a form for a new one must not change it."""
    if RewardConfig.objects.filter(project=project, name__iexact=checked_name(name, "reward")).exists():
        raise Refused("This project already has a reward of this name. Choose another, or edit that one.", "name")


@transaction.atomic
def reward_delete(*, reward: RewardConfig, actor: User) -> None:
    """Remove a reward with all its versions. Raises :class:`Refused` when jobs used it."""
    audit(workspace=reward.project.workspace, actor=actor, action="reward.delete", obj=reward)
    try:
        with transaction.atomic():
            reward.delete()
    except ProtectedError:
        raise Refused("Jobs used this reward, so it stays: their results refer to it.") from None


@transaction.atomic
def base_models_register() -> list[BaseModel]:
    """Make every base model that the engine knows by name choosable; known rows are brought up to date."""
    from trainers.engine.base_models import known_models  # brings torch, which pages never need

    models = []
    for known in known_models():
        values = {
            "title": known.title,
            "source": known.name,
            "parameters": known.parameters,
            "license": known.license,
            "origin": known.origin,
        }
        model, made = BaseModel.objects.update_or_create(name=known.name, defaults=values)
        if made:
            audit(workspace=None, actor=None, action="base_model.register", obj=model)
        models.append(model)
    return models


def _describe(item: Any) -> tuple[str, str]:
    path, message = describe_error(item)
    if item["type"] == "missing":
        return path, "this is needed"
    return path, message[:1].lower() + message[1:]
