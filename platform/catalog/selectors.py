"""What a person may see of datasets, rewards and models."""

from __future__ import annotations

from django.db.models import QuerySet

from catalog.models import BaseModel, Dataset, DatasetVersion, ModelVersion, RewardConfig, RewardVersion, TrainedModel
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


def latest_model_versions(user: User, project: Project) -> list[ModelVersion]:
    """The newest version of every model of a project, the last trained first."""
    rows = model_versions_visible_to(user).filter(model__project=project)
    latest = rows.order_by("model_id", "-number").distinct("model_id")
    return sorted(latest, key=lambda version: version.created_at, reverse=True)


def base_models_usable() -> QuerySet[BaseModel]:
    """The models that everyone on this installation can start from, the smallest first."""
    return BaseModel.objects.filter(enabled=True)
