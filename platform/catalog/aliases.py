"""Aliases of model versions: names such as ``production`` that point to one version and are moved, never copied."""

from __future__ import annotations

import re

from django.db import transaction

from catalog.models import AliasMove, ModelAlias, ModelVersion, TrainedModel
from workspaces.errors import Refused
from workspaces.models import User
from workspaces.services import audit

LONGEST = 64
MOST = 50
_ALIAS = re.compile(r"[a-z][a-z0-9._-]*")
# These would be read as the number of a version.
_NUMBER = re.compile(r"v?\d+")


def checked_alias(name: str) -> str:
    """``name`` in lower case. Raises :class:`Refused` when it cannot be an alias."""
    cleaned = name.strip().lower()
    if not cleaned or len(cleaned) > LONGEST or not _ALIAS.fullmatch(cleaned):
        raise Refused(
            f"An alias begins with a letter and has at most {LONGEST} letters (a to z), digits, dots, dashes or "
            "underscores, such as production.",
            "name",
        )
    if _NUMBER.fullmatch(cleaned) or cleaned == "latest":
        raise Refused(f"{cleaned} cannot be an alias, since it already means a version; choose another name.", "name")
    return cleaned


@transaction.atomic
def alias_move(
    *, model: TrainedModel, name: str, number: int, actor: User | None, expected: int | None = None
) -> ModelAlias:
    """Point the alias to the version with this number; it is made when it is new, and the move is kept.

    ``expected`` is the number it must point to now (0: it must be new). Raises :class:`Refused` for a name that cannot
    be an alias, a version that is not there, or an alias that points elsewhere than expected.
    """
    name = checked_alias(name)
    _lock(model)
    version = ModelVersion.objects.filter(model=model, number=number).first()
    if version is None:
        raise Refused(f"{model.name} has no version {number}.", "version")
    alias = ModelAlias.objects.select_related("version").filter(model=model, name=name).first()
    stands = alias.version.number if alias is not None else None
    _as_expected(name, stands, expected)
    if alias is None:
        if ModelAlias.objects.filter(model=model).count() >= MOST:
            raise Refused(f"A model has at most {MOST} aliases; remove one first.", "name")
        alias = ModelAlias.objects.create(model=model, name=name, version=version)
    elif stands != number:
        alias.version = version
        alias.save(update_fields=["version", "moved_at"])
    if stands != number:
        _note(model, name, stands, number, actor)
    return alias


@transaction.atomic
def alias_remove(*, model: TrainedModel, name: str, actor: User | None, expected: int | None = None) -> None:
    """Take the alias away. Raises :class:`Refused` when there is none, or it points elsewhere than ``expected``."""
    _lock(model)
    alias = ModelAlias.objects.select_related("version").filter(model=model, name=name.strip().lower()).first()
    if alias is None:
        raise Refused(f"{model.name} has no alias {name.strip()[:LONGEST]}.", "name")
    stands = alias.version.number
    _as_expected(alias.name, stands, expected)
    alias.delete()
    _note(model, alias.name, stands, None, actor)


def _lock(model: TrainedModel) -> None:
    """Moves of one model's aliases, and the deletion of its versions, come one after the other."""
    if not TrainedModel.objects.select_for_update(of=("self",)).filter(pk=model.pk).exists():
        raise Refused("This model was deleted.")


def _as_expected(name: str, stands: int | None, expected: int | None) -> None:
    if expected is not None and (stands or 0) != expected:
        where = f"points to v{stands} now" if stands else "is not there any more"
        raise Refused(f"{name} {where}: somebody moved it meanwhile. Look again before moving it.", "expected")


def _note(model: TrainedModel, name: str, before: int | None, after: int | None, actor: User | None) -> None:
    AliasMove.objects.create(
        model=model,
        name=name,
        from_number=before,
        to_number=after,
        actor=actor,
        actor_label=actor.email if actor else "platform",
    )
    audit(
        workspace=model.project.workspace,
        actor=actor,
        action="model.alias",
        obj=model,
        detail={"alias": name, "from": before, "to": after},
    )
