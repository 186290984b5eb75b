"""Words that people put on subjects to find them again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from records.models import Tag
from workspaces.errors import Refused
from workspaces.text import one_line

LONGEST = 40
MOST = 20


def tag_name(text: str) -> str:
    """A tag as it is kept: one line, single spaces. Raises :class:`Refused` for none and for a long one."""
    name = one_line(text)
    if not name:
        raise Refused("Give the tag a name.", "tag")
    if len(name) > LONGEST:
        raise Refused(f"A tag has at most {LONGEST} characters; this has {len(name)}.", "tag")
    return name


@transaction.atomic
def tag_add(*, kind: str, ids: Collection[UUID], name: str) -> None:
    """Put a tag on subjects; those that have it keep it. Raises :class:`Refused` where one has too many already."""
    name = tag_name(name)
    for id, tags in tags_of(kind, ids).items():
        if len(tags) >= MOST and name not in tags:
            raise Refused(f"{id} has {MOST} tags already; take one off first.", "tag")
    Tag.objects.bulk_create([Tag(subject_kind=kind, subject_id=id, name=name) for id in ids], ignore_conflicts=True)


def tag_remove(*, kind: str, ids: Collection[UUID], name: str) -> None:
    Tag.objects.filter(subject_kind=kind, subject_id__in=list(ids), name=name).delete()


def tags_of(kind: str, ids: Collection[UUID]) -> dict[UUID, list[str]]:
    """The tags of those subjects that have some, by name."""
    found: dict[UUID, list[str]] = {}
    rows = Tag.objects.filter(subject_kind=kind, subject_id__in=list(ids)).order_by("name")
    for id, name in rows.values_list("subject_id", "name"):
        found.setdefault(id, []).append(name)
    return found


def tagged(kind: str, name: str) -> QuerySet[Any]:
    """The ids of the subjects with a tag, for use inside another query."""
    return Tag.objects.filter(subject_kind=kind, name=name).values_list("subject_id", flat=True)
