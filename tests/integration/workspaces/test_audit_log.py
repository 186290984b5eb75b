"""The audit log: for admins only, filtered, page by page, and as CSV that no spreadsheet runs."""

from __future__ import annotations

import ast
import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse

from workspaces import audit_log
from workspaces.models import AuditEvent, Membership, Role, User

pytestmark = pytest.mark.django_db


def event(workspace: Any, actor: Any, action: str = "job.submit", label: str = "sums", **fields: Any) -> AuditEvent:
    at = fields.pop("at", None)
    made = AuditEvent.objects.create(
        workspace=workspace, actor=actor, actor_label=actor.email, action=action,
        object_kind=fields.pop("kind", "job"), object_id="1", object_label=label, **fields,
    )  # fmt: skip
    if at is not None:
        AuditEvent.objects.filter(pk=made.pk).update(at=at)
    return made


def labels(client: Client, workspace: Any, **query: str) -> list[str]:
    answer = client.get(reverse("audit", args=[workspace.pk]), query)
    assert answer.status_code == 200
    return [row.object_label for row in answer.context["page"].events]


def test_only_admins_read_it_and_only_their_own(client: Client, workspace: Any, alice: Any, bob: Any, mallory: Any):
    event(workspace, alice, label="ours")
    event(mallory.workspaces.get(), mallory, label="theirs")
    for name in ("audit", "audit-csv"):
        url = reverse(name, args=[workspace.pk])
        for person, status in ((bob, 403), (mallory, 404)):
            client.force_login(person)
            assert client.get(url).status_code == status
    client.force_login(alice)
    assert labels(client, workspace) == ["ours"]
    Membership.objects.filter(user=bob).update(role=Role.ADMIN)
    client.force_login(bob)
    assert labels(client, workspace) == ["ours"]


def test_each_filter_narrows_and_all_together(client: Client, workspace: Any, alice: Any, bob: Any):
    event(workspace, alice, label="a", at=datetime(2026, 11, 1, 12, tzinfo=UTC))
    event(workspace, bob, label="b", at=datetime(2026, 11, 2, 23, 59, 59, tzinfo=UTC))
    event(workspace, bob, "dataset.upload", "c", kind="dataset version", at=datetime(2026, 11, 3, tzinfo=UTC))
    client.force_login(alice)
    assert labels(client, workspace) == ["c", "b", "a"]
    assert labels(client, workspace, who="BOB@") == ["c", "b"]
    assert labels(client, workspace, who="Alice") == ["a"]
    assert labels(client, workspace, action="dataset.upload") == ["c"]
    assert labels(client, workspace, kind="job") == ["b", "a"]
    assert labels(client, workspace, since="2026-11-02") == ["c", "b"]
    assert labels(client, workspace, until="2026-11-02") == ["b", "a"]
    assert labels(client, workspace, who="bob", since="2026-11-02", until="2026-11-02") == ["b"]
    for nonsense in (
        {"since": "soon"},
        {"until": "9999-12-31"},
        {"before": "x"},
        {"who": "\x00"},
        {"before": "9" * 30},
    ):
        assert labels(client, workspace, **nonsense) == ["c", "b", "a"]


def test_days_are_those_of_the_person(client: Client, workspace: Any, alice: Any):
    event(workspace, alice, label="late", at=datetime(2026, 11, 1, 20, tzinfo=UTC))
    alice.time_zone = "Asia/Shanghai"
    alice.save()
    client.force_login(alice)
    assert labels(client, workspace, since="2026-11-02") == ["late"], "it was already the second there"


def test_pages_follow_each_other_without_loss_while_rows_come(workspace: Any, alice: Any):
    made = [event(workspace, alice, label=str(n)).pk for n in range(7)]
    rows = audit_log.events_visible_to(alice, workspace)
    first = audit_log.page(rows, size=3)
    event(workspace, alice, label="new")
    second = audit_log.page(rows, str(first.next), 3)
    third = audit_log.page(rows, str(second.next), 3)
    seen = [row.pk for part in (first, second, third) for row in part.events]
    assert seen == made[::-1]
    assert third.next is None


def test_the_csv_has_every_filtered_row_and_no_formula(client: Client, workspace: Any, alice: Any, monkeypatch: Any):
    monkeypatch.setattr(audit_log, "STRETCH", 2)
    names = ["plain", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", 'quote " comma ,', "line\nbreak", "模型"]
    for name in names:
        event(workspace, alice, label=name, detail={"why": name})
    event(workspace, alice, "dataset.upload", "left out")
    client.force_login(alice)
    answer = client.get(reverse("audit-csv", args=[workspace.pk]), {"action": "job.submit"})
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    head, *rows = list(csv.reader(io.StringIO(text)))
    assert head == list(audit_log.COLUMNS)
    cells = [row[4] for row in rows]
    assert [cell.removeprefix("'") for cell in cells] == names[::-1]
    assert not [cell for row in rows for cell in row if cell.lstrip(" ")[:1] in tuple("=+-@\t\r\n")]


SERVICES = [
    path
    for folder in ("platform/workspaces", "platform/catalog", "platform/compute", "platform/billing", "jobs")
    for path in sorted((Path(django_settings.BASE_DIR) / folder).glob("*.py"))
]
# Hand the writing on to a function that leaves the line, or write what is nobody's act.
WITHOUT = {
    "close",  # audited by itself, through workspace_close or person_delete
}


def acts(tree: ast.Module) -> list[ast.FunctionDef]:
    """The public functions that name who acts."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return [f for f in found if any(a.arg in ("actor", "submitted_by") for a in f.args.kwonlyargs)]


def leaves_a_line(function: ast.FunctionDef) -> bool:
    """Calls ``audit``, or hands the actor on."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name == "audit" or any(keyword.arg == "actor" for keyword in node.keywords):
                return True
            if name in ("_take_out", "_note", "close"):
                return True
    return False


def test_every_service_with_an_actor_leaves_a_line():
    silent, seen = [], 0
    for path in SERVICES:
        for function in acts(ast.parse(path.read_text())):
            seen += 1
            if not leaves_a_line(function) and function.name not in WITHOUT:
                silent.append(f"{path.name}: {function.name}")
    assert seen > 25
    assert silent == []


def test_what_a_person_does_through_the_services_is_in_the_log(workspace: Any, alice: Any, project: Any):
    from catalog.services import reward_save

    spec = {"components": [{"kind": "numeric"}]}
    reward_save(project=project, name="Sum", spec=spec, actor=alice, description="one")
    reward_save(project=project, name="Sum", spec=spec, actor=alice, description="two")
    actions = AuditEvent.objects.filter(workspace=workspace).order_by("id").values_list("action", flat=True)
    assert list(actions) == ["reward.save", "reward.describe"]
    assert User.objects.get(email="alice@example.com") == AuditEvent.objects.first().actor  # type: ignore[union-attr]
