"""What the catalog keeps for a team: counted, exported and removed as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet, Sum

from catalog.intake import lock_object
from catalog.models import (
    AliasMove,
    Checkpoint,
    Dataset,
    DatasetVersion,
    ModelAlias,
    ModelVersion,
    RewardConfig,
    RewardVersion,
    TrainedModel,
)
from trainers.storage import MANIFEST, Storage
from workspaces.holdings import Holding
from workspaces.models import User, Workspace

# Merged weights are stored in float32.
BYTES_PER_PARAMETER = 4


class CatalogHolding(Holding):
    name = "catalog"

    def tables(self, workspace: Workspace) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "datasets", Dataset.objects.filter(project__workspace=workspace)
        yield "dataset_versions", _dataset_versions(workspace)
        yield "rewards", RewardConfig.objects.filter(project__workspace=workspace)
        yield "reward_versions", RewardVersion.objects.filter(reward__project__workspace=workspace)
        yield "checkpoints", Checkpoint.objects.filter(project__workspace=workspace)
        yield "models", TrainedModel.objects.filter(project__workspace=workspace)
        yield "model_versions", _model_versions(workspace)
        yield "model_aliases", ModelAlias.objects.filter(model__project__workspace=workspace)
        yield "model_alias_moves", AliasMove.objects.filter(model__project__workspace=workspace)

    def tables_of_person(self, user: User) -> Iterable[tuple[str, QuerySet[Any]]]:
        yield "dataset_versions", DatasetVersion.objects.filter(created_by=user)
        yield "reward_versions", RewardVersion.objects.filter(created_by=user)
        yield "model_alias_moves", AliasMove.objects.filter(actor=user)

    def files(self, workspace: Workspace) -> Iterable[str]:
        yield from _dataset_versions(workspace).values_list("object_key", flat=True).distinct()
        for uri, files in Checkpoint.objects.filter(project__workspace=workspace).values_list("uri", "files"):
            yield from (f"{uri}/{name}" for name in [*(file["name"] for file in files), MANIFEST])
        storage = Storage(settings.STORAGE_URL)
        for uri in _model_versions(workspace).exclude(merged_uri="").values_list("merged_uri", flat=True):
            yield from storage.list(uri)

    def used_bytes(self, workspace: Workspace) -> dict[str, int]:
        """Equal files of datasets count once, as they are stored once."""
        distinct = _dataset_versions(workspace).order_by("object_key").distinct("object_key")
        data = DatasetVersion.objects.filter(pk__in=distinct.values("pk")).aggregate(sum=Sum("size"))["sum"]
        checkpoints = Checkpoint.objects.filter(project__workspace=workspace)
        models = checkpoints.filter(model_version__isnull=False).aggregate(sum=Sum("size"))["sum"]
        others = checkpoints.filter(model_version__isnull=True).aggregate(sum=Sum("size"))["sum"]
        made = [ModelVersion.Merged.READY, ModelVersion.Merged.MAKING]
        merged = (
            _model_versions(workspace).filter(merged__in=made).aggregate(sum=Sum(F("base_model__parameters")))["sum"]
        )
        return {
            "datasets": data or 0,
            "models": (models or 0) + (merged or 0) * BYTES_PER_PARAMETER,
            "checkpoints": others or 0,
        }

    def remove(self, workspace: Workspace) -> None:
        storage = Storage(settings.STORAGE_URL)
        versions = _model_versions(workspace)
        checkpoints = Checkpoint.objects.filter(project__workspace=workspace)
        for uri in [*versions.exclude(merged_uri="").values_list("merged_uri", flat=True)]:
            storage.delete_folder(uri)
        for uri in [*checkpoints.values_list("uri", flat=True)]:
            storage.delete_folder(uri)
        ModelAlias.objects.filter(model__project__workspace=workspace).delete()
        versions.delete()
        TrainedModel.objects.filter(project__workspace=workspace).delete()
        checkpoints.delete()
        RewardConfig.objects.filter(project__workspace=workspace).delete()
        keys = sorted(set(_dataset_versions(workspace).values_list("object_key", flat=True)))
        Dataset.objects.filter(project__workspace=workspace).delete()
        for key in keys:
            lock_object(key)
            # Another team may have uploaded the same bytes.
            if not DatasetVersion.objects.filter(object_key=key).exists():
                storage.delete(key)

    def forget_person(self, user_id: UUID, labels: Iterable[str], stand_in: str) -> None:
        AliasMove.objects.filter(actor_id=user_id).update(actor_label=stand_in)


def merged_bytes(version: ModelVersion) -> int:
    """What the merged weights of a version take."""
    return version.base_model.parameters * BYTES_PER_PARAMETER


def _dataset_versions(workspace: Workspace) -> QuerySet[DatasetVersion]:
    return DatasetVersion.objects.filter(dataset__project__workspace=workspace)


def _model_versions(workspace: Workspace) -> QuerySet[ModelVersion]:
    return ModelVersion.objects.filter(model__project__workspace=workspace)
