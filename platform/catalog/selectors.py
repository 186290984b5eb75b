"""What a person may see of datasets, rewards and models."""

from __future__ import annotations

from django.db.models import Count, Max, OuterRef, QuerySet, Subquery

from catalog.models import BaseModel, Dataset, DatasetVersion, ModelVersion, RewardConfig, RewardVersion, TrainedModel
from workspaces import access
from workspaces.models import User


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
    """Trained models of this person's workspaces, newest first; ``latest_*`` and ``count`` tell of versions."""
    newest = ModelVersion.objects.filter(model=OuterRef("pk")).order_by("-number")
    return (
        access.visible(TrainedModel.objects.all(), user)
        .select_related("project__workspace")
        .annotate(
            count=Count("versions", distinct=True),
            latest_number=Max("versions__number"),
            latest_at=Max("versions__created_at"),
            latest_id=Subquery(newest.values("pk")[:1]),
        )
        .order_by("-latest_at")
    )


def model_versions_visible_to(user: User) -> QuerySet[ModelVersion]:
    return access.visible(ModelVersion.objects.all(), user).select_related(
        "model__project__workspace", "base_model", "checkpoint"
    )


def base_models_usable() -> QuerySet[BaseModel]:
    """The models that everyone on this installation can start from, the smallest first."""
    return BaseModel.objects.filter(enabled=True)
