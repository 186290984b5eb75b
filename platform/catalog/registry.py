"""The model registry: what jobs made, by name and version; what people say of it, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from catalog.code_version import code_version
from catalog.discarding import discard
from catalog.holding import merged_bytes
from catalog.hooks import why_in_use
from catalog.models import BaseModel, Checkpoint, ModelAlias, ModelVersion, TrainedModel
from catalog.naming import checked_name, find_or_make, next_number
from workspaces import markdown
from workspaces.errors import Refused
from workspaces.models import Project, User
from workspaces.quota import check_room
from workspaces.services import audit
from workspaces.text import one_line

LONGEST_TAG = 40
MOST_TAGS = 20


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
        made_with=code_version()[:100],
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


@transaction.atomic
def model_describe(
    *, model: TrainedModel, actor: User, description: str | None = None, tags: Iterable[str] | None = None
) -> TrainedModel:
    """Change what is said of a model (Markdown) and its tags; what is None stays. Raises :class:`Refused`."""
    changed = []
    if description is not None and (text := _checked_text(description, "description")) != model.description:
        model.description = text
        changed.append("description")
    if tags is not None and (checked := _checked_tags(tags)) != model.tags:
        model.tags = checked
        changed.append("tags")
    if changed:
        model.save(update_fields=changed)
        audit(
            workspace=model.project.workspace, actor=actor, action="model.describe", obj=model, detail={"what": changed}
        )
    return model


@transaction.atomic
def model_version_note(*, version: ModelVersion, actor: User, notes: str) -> ModelVersion:
    """Change the notes of a version (Markdown). Raises :class:`Refused` when they are too long."""
    checked = _checked_text(notes, "notes")
    if checked != version.notes:
        version.notes = checked
        version.save(update_fields=["notes"])
        audit(workspace=version.model.project.workspace, actor=actor, action="model.note", obj=version)
    return version


@transaction.atomic
def model_version_delete(*, version: ModelVersion, actor: User) -> None:
    """Remove a version, its checkpoint and its files; the model goes with its last version.

    Raises :class:`Refused` when an alias points to it or a job needs it.
    """
    model = version.model
    TrainedModel.objects.select_for_update(of=("self",)).filter(pk=model.pk).first()
    versions = list(ModelVersion.objects.select_for_update(of=("self",)).filter(pk=version.pk))
    _delete(versions, actor)
    if not ModelVersion.objects.filter(model=model).exists():
        audit(workspace=model.project.workspace, actor=actor, action="model.delete", obj=model)
        model.delete()


@transaction.atomic
def model_delete(*, model: TrainedModel, actor: User) -> None:
    """Remove a model with all its versions and their files.

    Raises :class:`Refused` when it has an alias or a job needs one of its versions.
    """
    TrainedModel.objects.select_for_update(of=("self",)).filter(pk=model.pk).first()
    _delete(list(ModelVersion.objects.select_for_update(of=("self",)).filter(model=model)), actor)
    audit(workspace=model.project.workspace, actor=actor, action="model.delete", obj=model)
    model.delete()


def _delete(versions: Sequence[ModelVersion], actor: User) -> None:
    pointing = ModelAlias.objects.filter(version__in=versions).select_related("version").order_by("name")
    if names := ", ".join(f"{alias.name} (v{alias.version.number})" for alias in pointing):
        raise Refused(f"An alias points to it: {names}. Move or remove the alias first.")
    if why := why_in_use(versions):
        raise Refused(why)
    rows = list(
        ModelVersion.objects.filter(pk__in=[version.pk for version in versions]).select_related(
            "model__project__workspace", "checkpoint"
        )
    )
    for row in rows:
        audit(workspace=row.model.project.workspace, actor=actor, action="model.version_delete", obj=row)
    ModelVersion.objects.filter(pk__in=[row.pk for row in rows]).delete()
    Checkpoint.objects.filter(pk__in=[row.checkpoint_id for row in rows]).delete()
    discard(uri for row in rows for uri in (row.checkpoint.uri, row.merged_uri))


def _checked_text(text: str, what: str) -> str:
    cleaned = text.replace("\x00", "").replace("\r\n", "\n").strip()
    if len(cleaned) > markdown.LONGEST:
        raise Refused(f"The {what} may have at most {markdown.LONGEST:,} characters; this has {len(cleaned):,}.", what)
    return cleaned


def _checked_tags(tags: Iterable[str]) -> list[str]:
    """Each once, in the order given, white space in order."""
    found: dict[str, str] = {}
    for tag in tags:
        cleaned = one_line(tag)
        if len(cleaned) > LONGEST_TAG:
            raise Refused(f"A tag has at most {LONGEST_TAG} characters; this one has {len(cleaned)}.", "tags")
        if cleaned:
            found.setdefault(cleaned.lower(), cleaned)
    if len(found) > MOST_TAGS:
        raise Refused(f"A model has at most {MOST_TAGS} tags; these are {len(found)}.", "tags")
    return list(found.values())
