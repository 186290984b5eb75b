"""The model registry: what jobs made, by name and version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from catalog.holding import merged_bytes
from catalog.models import BaseModel, Checkpoint, ModelVersion, TrainedModel
from catalog.naming import checked_name, find_or_make, next_number
from workspaces.models import Project, User
from workspaces.quota import check_room
from workspaces.services import audit


@transaction.atomic
def model_version_create(
    *,
    project: Project,
    name: str,
    checkpoint: Checkpoint,
    base_model: BaseModel,
    made_by_kind: str,
    made_by_id: UUID,
    evaluation: dict[str, Any],
    actor: User | None = None,
) -> ModelVersion:
    """The next version of the model ``name``, made when the name is new. The same checkpoint gives the same version.

    ``evaluation`` is what the run measured: ``{"before": {...}, "after": {...}, "steps", "tokens", ...}``.
    """
    known = ModelVersion.objects.select_related("model").filter(checkpoint=checkpoint).first()
    if known is not None:
        return known
    model, _made = find_or_make(TrainedModel, project, checked_name(name, "model"))
    version = ModelVersion.objects.create(
        model=model,
        number=next_number(model.versions),
        checkpoint=checkpoint,
        base_model=base_model,
        made_by_kind=made_by_kind,
        made_by_id=made_by_id,
        evaluation=evaluation,
    )
    audit(workspace=project.workspace, actor=actor, action="model.version", obj=version)
    return version


@transaction.atomic
def merged_request(*, version: ModelVersion, actor: User) -> bool:
    """Note that the merged weights are wanted; True for the one caller that must have them made.

    Raises :class:`Refused` when the workspace has no room for them.
    """
    if version.merged in (ModelVersion.Merged.NOT_ASKED, ModelVersion.Merged.FAILED):
        check_room(version.model.project.workspace, merged_bytes(version), "The merged model")
    asked = ModelVersion.objects.filter(
        pk=version.pk, merged__in=[ModelVersion.Merged.NOT_ASKED, ModelVersion.Merged.FAILED]
    ).update(merged=ModelVersion.Merged.MAKING, merged_error="")
    if asked:
        audit(workspace=version.model.project.workspace, actor=actor, action="model.merge", obj=version)
    return bool(asked)


def merged_record(*, version: ModelVersion, uri: str) -> None:
    """Note where the merged weights of a version were stored."""
    ModelVersion.objects.filter(pk=version.pk).update(merged=ModelVersion.Merged.READY, merged_uri=uri, merged_error="")


def merged_failed(*, version: ModelVersion, error: str) -> None:
    """Note that they could not be made, and why; they can be asked for again."""
    ModelVersion.objects.filter(pk=version.pk).update(merged=ModelVersion.Merged.FAILED, merged_error=error[:1000])
