"""What changes in the model registry: aliases, descriptions, notes, deletion.

It adds to the router of ``gateway.rest.models``: one address can only be in one router, whatever the methods.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Status

from catalog import registry
from catalog.aliases import alias_move, alias_remove
from catalog.models import TrainedModel
from catalog.selectors import alias_moves, models_visible_to
from gateway.rest.auth import caller
from gateway.rest.models import model_shown, router, version_full, version_of
from gateway.rest.schemas import (
    AliasIn,
    AliasMovesOut,
    ModelIn,
    ModelOut,
    ModelVersionIn,
    ModelVersionOut,
    refusals,
)
from workspaces import access
from workspaces.models import Role, User

MOVES = 500


@router.patch(
    "/models/{uuid:model_id}",
    response={200: ModelOut, **refusals(403, 404)},
    summary="Change the description and tags of a model",
    operation_id="model_describe",
)
def model_describe(request: HttpRequest, model_id: UUID, body: ModelIn) -> dict[str, Any]:
    user = caller(request)
    model = _model(user, model_id)
    registry.model_describe(model=model, actor=user, description=body.description, tags=body.tags)
    return model_shown(user, model_id)


@router.delete(
    "/models/{uuid:model_id}",
    response={204: None, **refusals(403, 404)},
    summary="Delete a model with all its versions and files; refused while an alias or a running job needs it",
    operation_id="model_delete",
)
def model_delete(request: HttpRequest, model_id: UUID) -> Status:
    user = caller(request)
    registry.model_delete(model=_model(user, model_id), actor=user)
    return Status(204, None)


@router.put(
    "/models/{uuid:model_id}/aliases/{str:name}",
    response={200: ModelOut, **refusals(403, 404)},
    summary="Point an alias to a version; it is made when it is new",
    operation_id="model_alias_move",
)
def model_alias_move(request: HttpRequest, model_id: UUID, name: str, body: AliasIn) -> dict[str, Any]:
    user = caller(request)
    alias_move(model=_model(user, model_id), name=name, number=body.version, expected=body.expected, actor=user)
    return model_shown(user, model_id)


@router.delete(
    "/models/{uuid:model_id}/aliases/{str:name}",
    response={200: ModelOut, **refusals(403, 404)},
    summary="Take an alias away",
    operation_id="model_alias_remove",
)
def model_alias_remove(request: HttpRequest, model_id: UUID, name: str) -> dict[str, Any]:
    user = caller(request)
    alias_remove(model=_model(user, model_id), name=name, actor=user)
    return model_shown(user, model_id)


@router.get(
    "/models/{uuid:model_id}/alias-moves",
    response={200: AliasMovesOut, **refusals(404)},
    summary="How the aliases of a model were moved, the last move first; the newest 500",
    operation_id="model_alias_moves",
)
def model_alias_moves(request: HttpRequest, model_id: UUID) -> dict[str, Any]:
    user = caller(request)
    model = access.get(models_visible_to(user), model_id, user)
    return {
        "items": [
            {
                "id": move.pk,
                "name": move.name,
                "from_number": move.from_number,
                "to_number": move.to_number,
                "actor": move.actor_label,
                "at": move.at,
            }
            for move in alias_moves(user, model)[:MOVES]
        ]
    }


@router.patch(
    "/model-versions/{uuid:version_id}",
    response={200: ModelVersionOut, **refusals(403, 404)},
    summary="Change the notes of a version",
    operation_id="model_version_note",
)
def model_version_note(request: HttpRequest, version_id: UUID, body: ModelVersionIn) -> dict[str, Any]:
    user = caller(request)
    version = version_of(user, version_id, Role.EDITOR)
    registry.model_version_note(version=version, actor=user, notes=body.notes)
    return version_full(version_of(user, version_id))


@router.delete(
    "/model-versions/{uuid:version_id}",
    response={204: None, **refusals(403, 404)},
    summary="Delete a version and its files; refused while an alias or a running job needs it",
    operation_id="model_version_delete",
)
def model_version_delete(request: HttpRequest, version_id: UUID) -> Status:
    user = caller(request)
    registry.model_version_delete(version=version_of(user, version_id, Role.EDITOR), actor=user)
    return Status(204, None)


def _model(user: User, model_id: UUID) -> TrainedModel:
    return access.get(models_visible_to(user), model_id, user, Role.EDITOR)
