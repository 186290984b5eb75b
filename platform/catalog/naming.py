"""Names of things in a project: one thing per name, whatever its case, and versions numbered without gaps."""

from __future__ import annotations

from typing import TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Manager, Max, Model, Value
from django.db.models.functions import Lower

from catalog.models import Dataset, RewardConfig, TrainedModel
from workspaces.errors import Refused
from workspaces.models import Project

Named = TypeVar("Named", Dataset, RewardConfig, TrainedModel)
LONGEST = 200


def checked_name(name: str, kind: str) -> str:
    """``name`` with its white space in order. Raises :class:`Refused` when it is empty or too long."""
    # NUL cannot be stored, and the other control characters cannot be seen.
    cleaned = " ".join("".join(c if c.isprintable() or c in "\u200c\u200d" else " " for c in name).split())
    if not cleaned:
        raise Refused(f"Give the {kind} a name.", "name")
    if len(cleaned) > LONGEST:
        raise Refused(f"The name of a {kind} has at most {LONGEST} characters; this one has {len(cleaned)}.", "name")
    return cleaned


def find_or_make(model: type[Named], project: Project, name: str) -> tuple[Named, bool]:
    """The project's thing of this name, locked until the transaction ends, and whether it was made now."""
    manager: Manager[Named] = model._default_manager
    # The database lowers both sides, as its unique index does: Python's idea of lower case differs for some letters.
    same = manager.filter(project=project).alias(lowered=Lower("name")).filter(lowered=Lower(Value(name)))

    def find() -> Named | None:
        return same.select_for_update(of=("self",)).first()

    found = find()
    if found is not None:
        return found, False
    try:
        with transaction.atomic():
            return manager.create(project=project, name=name), True
    except IntegrityError:
        other = find()
        if other is None:
            raise
        return other, False


def next_number(versions: Manager[Model]) -> int:
    """The number of the next version. The caller holds the lock of what the versions belong to."""
    return int(versions.aggregate(last=Max("number"))["last"] or 0) + 1
