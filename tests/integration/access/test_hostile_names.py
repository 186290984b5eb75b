"""Names that break pages are only text on every page, and an id of nothing is found nowhere."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from access_table import Entry, Need
from access_walk import ARGUMENT, ask
from access_world import MARKER, PEOPLE, PROGRAMS, World
from django.apps import apps
from django.db import models
from table_of_operations import OPERATIONS
from table_of_pages import PAGES

pytestmark = pytest.mark.usefixtures("db")

NAMES = (
    "<script>alert('x')</script> & \"quotes\" {{ braces }} {% tag %}",
    "🧮🎉👩‍👩‍👧‍👦 模型训练数据集",
    "עברית \u202ereversed\u202c العربية",
    "a" * 200,
    "../slashes/and.dots/...",
    "%s %(name)s {0} \\u0000 ' OR 1=1 --",
)
NOTHING = "00000000-0000-0000-0000-000000000000"
LOOKS = [entry for entry in (*PAGES, *OPERATIONS) if entry.needs.get("GET") not in (None, Need.PUBLIC, Need.STAFF)]


def owner_of(entry: Entry) -> Any:
    return (PROGRAMS if entry.for_programs else PEOPLE)[-1]


def rename(name: str) -> int:
    """Write ``name`` wherever the team's mark stands in the database; in how many places it does now."""
    places = 0
    for model in apps.get_models():
        kinds = (models.CharField, models.TextField, models.JSONField)
        fields = [
            f for f in model._meta.concrete_fields if isinstance(f, kinds) and not isinstance(f, models.EmailField)
        ]
        for row in model._base_manager.values("pk", *(field.attname for field in fields)):
            changes = {
                field.attname: _written(field, row[field.attname], name)
                for field in fields
                if MARKER in json.dumps(row[field.attname], default=str)
            }
            if changes:
                places += model._base_manager.filter(pk=row["pk"]).update(**changes) * len(changes)
    return places


def _written(field: Any, value: Any, name: str) -> Any:
    if isinstance(field, models.JSONField):
        return json.loads(json.dumps(value).replace(MARKER, json.dumps(name)[1:-1]))
    return value.replace(MARKER, name)[: field.max_length]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_nasty_names_are_only_text_wherever_they_stand(world: World, name: str):
    assert rename(name) > 40
    wrong = []
    for entry in LOOKS:
        answer = ask(world, entry, "GET", owner_of(entry))
        if answer.status not in (200, 302):
            wrong.append(f"{entry.route} answers {answer.status}")
        elif "text/html" in answer.headers:
            if b"<script>alert(" in answer.body:
                wrong.append(f"{entry.route} lets the name act")
            heads = len(re.findall(rb"<h1\b", answer.body))
            if b"<html" in answer.body and heads != 1:
                wrong.append(f"{entry.route} has {heads} headings")
    assert not wrong, "\n".join(wrong)


def test_an_id_of_nothing_is_found_nowhere(world: World):
    tried, wrong = 0, []
    for entry in LOOKS:
        for key in (match["name"] for match in ARGUMENT.finditer(entry.route) if match["kind"] == "uuid"):
            tried += 1
            void = World(world.objects | {key: NOTHING}, world.keys)
            if (status := ask(void, entry, "GET", owner_of(entry)).status) != 404:
                wrong.append(f"{entry.route} without its {key} answers {status}")
    assert tried > 40
    assert not wrong, "\n".join(wrong)
