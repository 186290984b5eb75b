"""What a team, or a person, can take along: every row as JSON, and the files behind them.

Rows are read in stretches by their primary key rather than with one long query: an answer is sent from changing
threads, and nothing of the database may be held between two stretches.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection
from django.db.models import Model, QuerySet

from trainers.storage import Storage
from workspaces import holdings
from workspaces.downloads import Entry, file_stream, zip_of
from workspaces.masking import Mask
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Project, Secret, SharedLink, User, Workspace
from workspaces.vault import mask_of, mask_of_person

T = TypeVar("T")
STRETCH = 500
# Never leaves the database, not even to its owner.
HELD_BACK = frozenset({"password", "digest", "sealed"})
Table = tuple[str, QuerySet[Any]]

README = """\
Everything the workspace “{name}” holds, as it was when this was made.

*.jsonl      one table each, one JSON object a line; ids refer to the rows of other tables
files.jsonl  the stored files: key and size in bytes
files/       the stored files themselves{there}

Secrets, passwords and token keys are not in it.
"""


def workspace_zip(workspace: Workspace, *, with_files: bool) -> Iterator[bytes]:
    """A zip of all rows of a team and the list of its files, with the files themselves when asked for."""
    packing = zipfile.ZIP_STORED if with_files else zipfile.ZIP_DEFLATED
    return zip_of(_entries(workspace, with_files), packing)


def _entries(workspace: Workspace, with_files: bool) -> Iterator[Entry]:
    mask = _let_go(lambda: mask_of(workspace.pk))
    there = "" if with_files else " (not in this export)"
    yield "README.txt", [README.format(name=workspace.name, there=there).encode("utf-8", "replace")]
    for name, rows in _tables(workspace):
        yield f"{name}.jsonl", _lines(rows, mask)
    storage = Storage(settings.STORAGE_URL)
    keys = _let_go(lambda: sorted({key for part in holdings.all_holdings() for key in part.files(workspace)}))
    present = [key for key in keys if storage.exists(key)]
    yield "files.jsonl", (_line({"key": key, "size": storage.size(key)}) for key in present)
    if with_files:
        for key in present:
            yield f"files/{key}", file_stream(storage, key)


def _tables(workspace: Workspace) -> Iterator[Table]:
    yield "workspace", Workspace.objects.filter(pk=workspace.pk)
    yield "people", User.objects.filter(memberships__workspace=workspace)
    for model in (Membership, Project, Invitation, ApiToken, Secret, SharedLink, AuditEvent):
        rows: QuerySet[Any] = model.objects.filter(workspace=workspace)
        yield str(model._meta.verbose_name_plural).replace(" ", "_"), rows
    for holding in holdings.all_holdings():
        for name, rows in holding.tables(workspace):
            yield f"{holding.name}/{name}", rows


def person_json(user: User) -> Iterator[bytes]:
    """One JSON object with every row about a person: ``{"account": [...], "memberships": [...], ...}``."""
    tables: list[Table] = [
        ("account", User.objects.filter(pk=user.pk)),
        ("memberships", Membership.objects.filter(user=user)),
        ("tokens", ApiToken.objects.filter(user=user)),
        ("invitations", Invitation.objects.filter(email__iexact=user.email)),
        ("actions", AuditEvent.objects.filter(actor=user)),
    ]
    for holding in holdings.all_holdings():
        tables += [(f"{holding.name}/{name}", rows) for name, rows in holding.tables_of_person(user)]
    mask = _let_go(lambda: mask_of_person(user))
    yield b"{"
    for place, (name, rows) in enumerate(tables):
        yield (b"," if place else b"") + json.dumps(name).encode() + b":["
        for number, line in enumerate(_lines(rows, mask)):
            yield (b"," if number else b"") + line
        yield b"]"
    yield b"}\n"


def _lines(rows: QuerySet[Any], mask: Mask) -> Iterator[bytes]:
    last = None
    while True:
        wanted = rows.order_by("pk") if last is None else rows.order_by("pk").filter(pk__gt=last)
        stretch = _let_go(lambda wanted=wanted: list(wanted[:STRETCH]))  # type: ignore[misc]
        for row in stretch:
            yield _line(mask.value(_plain(row)))
        if len(stretch) < STRETCH:
            return
        last = stretch[-1].pk


def _plain(row: Model) -> dict[str, Any]:
    fields = (field for field in row._meta.concrete_fields if field.attname not in HELD_BACK)
    return {field.attname: getattr(row, field.attname) for field in fields}


def _line(value: Any) -> bytes:
    return json.dumps(value, cls=_Encoder, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class _Encoder(DjangoJSONEncoder):
    def default(self, o: Any) -> Any:
        try:
            return super().default(o)
        except TypeError:
            return str(o)


def _let_go(read: Callable[[], T]) -> T:
    """Read, and leave no connection behind in a thread that may never be seen again."""
    try:
        return read()
    finally:
        if not connection.in_atomic_block:
            connection.close()
