"""What a person may see of datasets, rewards and models."""

from __future__ import annotations

import re
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Lower

from catalog.models import (
    AliasMove,
    BaseModel,
    Dataset,
    DatasetVersion,
    ModelVersion,
    RewardConfig,
    RewardVersion,
    TrainedModel,
)
from workspaces import access
from workspaces.models import Project, User


def datasets_visible_to(user: User) -> QuerySet[Dataset]:
    """Datasets of this person's workspaces, with their versions (newest first) and project."""
    return (
        access.visible(Dataset.objects.all(), user)
        .select_related("project__workspace")
        .prefetch_related("versions__created_by")
    )


def dataset_versions_visible_to(user: User) -> QuerySet[DatasetVersion]:
    return access.visible(DatasetVersion.objects.all(), user).select_related(
        "dataset__project__workspace", "created_by"
    )


def versions_to_compare(user: User, version: DatasetVersion) -> list[DatasetVersion]:
    """The newest versions of the project's other datasets."""
    others = datasets_visible_to(user).filter(project=version.dataset.project).exclude(pk=version.dataset_id)
    found = [next(iter(dataset.versions.all()), None) for dataset in others]
    return [one for one in found if one is not None]


def rewards_visible_to(user: User) -> QuerySet[RewardConfig]:
    """Rewards of this person's workspaces, with their versions (newest first) and project."""
    return (
        access.visible(RewardConfig.objects.all(), user)
        .select_related("project__workspace")
        .prefetch_related("versions__created_by")
    )


def reward_versions_visible_to(user: User) -> QuerySet[RewardVersion]:
    return access.visible(RewardVersion.objects.all(), user).select_related("reward__project__workspace", "created_by")


def models_visible_to(user: User) -> QuerySet[TrainedModel]:
    """Trained models of this person's workspaces, with their project."""
    return access.visible(TrainedModel.objects.all(), user).select_related("project__workspace")


def model_versions_visible_to(user: User) -> QuerySet[ModelVersion]:
    return access.visible(ModelVersion.objects.all(), user).select_related(
        "model__project__workspace", "base_model", "checkpoint"
    )


def alias_moves(user: User, model: TrainedModel) -> QuerySet[AliasMove]:
    """How the aliases of a model were moved, the last move first."""
    return access.visible(AliasMove.objects.all(), user).filter(model=model)


_NAMED = re.compile(r"^model:(?P<model>.+)@(?P<which>[^@]+)$", re.DOTALL)


def model_version_named(project: Project, text: str) -> ModelVersion | None:
    """The version of the project that ``model:<id or name>@<number or alias>`` names; None when there is none.

    A name may hold an ``@`` itself: what follows the last one is the number or alias.
    """
    match = _NAMED.match(text)
    if match is None:
        return None
    rows = ModelVersion.objects.select_related("model__project", "checkpoint", "base_model").filter(
        model__project=project
    )
    try:
        rows = rows.filter(model_id=UUID(match["model"]))
    except ValueError:
        rows = rows.alias(lowered=Lower("model__name")).filter(lowered=match["model"].strip().lower())
    which = match["which"].strip().lower()
    number = which.removeprefix("v")
    if number.isascii() and number.isdigit():
        return rows.filter(number=int(number)).first() if len(number) < 10 else None
    return rows.filter(aliases__name=which).first()


def latest_model_versions(user: User, project: Project) -> list[ModelVersion]:
    """The newest version of every model of a project, the last trained first."""
    rows = model_versions_visible_to(user).filter(model__project=project)
    latest = rows.order_by("model_id", "-number").distinct("model_id").prefetch_related("model__aliases__version")
    return sorted(latest, key=lambda version: version.created_at, reverse=True)


def base_models_usable() -> QuerySet[BaseModel]:
    """The models that everyone on this installation can start from, the smallest first."""
    return BaseModel.objects.filter(enabled=True)
