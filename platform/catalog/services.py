"""Writes of datasets, rewards and base models."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from pydantic import ValidationError

from catalog.models import BaseModel, RewardConfig, RewardVersion
from catalog.naming import checked_name, find_or_make, next_number
from trainers.rewards.spec import COMPONENT_KINDS, RewardSpec
from workspaces.errors import Refused
from workspaces.models import Project, User
from workspaces.services import audit


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
    reward, _made = find_or_make(RewardConfig, project, checked_name(name, "reward"))
    if description is not None and description != reward.description:
        reward.description = description
        reward.save(update_fields=["description"])
    content = checked.model_dump(mode="json")
    newest = reward.versions.first()
    if newest is not None and newest.spec == content:
        return newest
    version = RewardVersion.objects.create(
        reward=reward, number=next_number(reward.versions), spec=content, created_by=actor
    )
    audit(workspace=project.workspace, actor=actor, action="reward.save", obj=version)
    return version


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
        model, _made = BaseModel.objects.update_or_create(name=known.name, defaults=values)
        models.append(model)
    return models


def _describe(item: Any) -> tuple[str, str]:
    # Tags of discriminated unions are part of pydantic's location but no field a person wrote.
    path = ".".join(str(part) for part in item["loc"] if part not in COMPONENT_KINDS)
    cause = item.get("ctx", {}).get("error")
    if item["type"] == "extra_forbidden":
        return path, "there is no such field"
    if item["type"] == "missing":
        return path, "this is needed"
    message = str(cause) if isinstance(cause, ValueError) else str(item["msg"])
    return path, message[:1].lower() + message[1:]
