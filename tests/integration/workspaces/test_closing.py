"""Deleting a team: nobody reaches it from that moment, and nothing of it stays, in no table and not in storage."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import factories
import pytest
from django.apps import apps
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_log, write_points, write_rollouts

from billing.models import LedgerLine, Price, Usage
from catalog.models import Checkpoint, DatasetVersion
from catalog.registry import merged_record, model_version_create
from catalog.services import dataset_upload, reward_save
from compute.models import Lease
from delivery.models import Message
from jobs.models import Attempt, Job
from jobs.services import job_transition
from jobs.states import State
from trainers.runtime.segments import journal_prefix
from trainers.storage import Storage
from workspaces import holdings
from workspaces.closing import closed_remove, workspace_close
from workspaces.errors import Refused
from workspaces.invitations import invitation_create
from workspaces.models import AuditEvent, Membership, Role, Workspace
from workspaces.tokens import token_authenticate, token_create
from workspaces.vault import secret_set

pytestmark = pytest.mark.django_db
MARK = "wren-4c1d"
ROWS = b'{"question": "1 + 1?", "answer": "2"}\n' * 5


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> Storage:
    settings.STORAGE_URL = f"file://{tmp_path / 'storage'}"
    settings.WORK_DIR = tmp_path / "work"
    return Storage(settings.STORAGE_URL)


def fill(workspace: Any, project: Any, user: Any, storage: Storage) -> Job:
    """One of everything that a team can have, each text with the mark."""
    data = dataset_upload(
        project=project, name=MARK, file=io.BytesIO(ROWS + f'{{"question": "{MARK}", "answer": "1"}}'.encode()),
        file_name="rows.jsonl", actor=user,
    )  # fmt: skip
    assert data.usable_rows
    dataset_upload(project=project, name="Shared", file=io.BytesIO(ROWS), file_name="rows.jsonl", actor=user)
    reward_save(project=project, name=MARK, spec={"components": [{"kind": "exact", "name": MARK}]}, actor=user)
    job = factories.job(project, user, name=MARK)
    attempt = run_job(job)
    write_points(job, attempt, {f"train/{MARK}": [1.0, 2.0]})
    write_log(job, attempt, [MARK])
    write_rollouts(job, attempt, step=1, prompt=MARK, completion=MARK, answer=MARK)
    files = [{"name": "a.bin", "size": 1, "sha256": "ab" * 32}]
    journal = journal_prefix(str(attempt.pk), attempt.number)
    prefix = f"checkpoints/{attempt.pk}/{attempt.number}"
    for key in (
        f"{prefix}/final/a.bin", f"{prefix}/forgotten/b.bin", f"merged/{job.pk}/a.bin",
        f"reports/{job.pk}/1.html", f"{journal}/000000000001-000000000002.jsonl",
    ):  # fmt: skip
        storage.put_bytes(key, b"1")
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=2, name=MARK,
        uri=f"{prefix}/final", format="peft", files=files, size=1, final=True,
    )  # fmt: skip
    model = model_version_create(
        project=project, name=MARK, checkpoint=checkpoint, base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={},
    )  # fmt: skip
    merged_record(version=model, uri=f"merged/{job.pk}")
    Job.objects.filter(pk=job.pk).update(report_key=f"reports/{job.pk}/1.html", model_version=model)
    bill(workspace, project, job, attempt)
    token_create(user=user, workspace=workspace, name=MARK)
    secret_set(workspace=workspace, name="HF_TOKEN", value=f"value {MARK}", actor=user)
    invitation_create(workspace=workspace, email=f"{MARK}@example.com", role=Role.VIEWER, actor=user)
    Message.objects.create(
        key=f"job:{job.pk}:failed:1", recipient="x@example.com", subject=MARK, text="", due_at=timezone.now()
    )
    return job


def bill(workspace: Any, project: Any, job: Job, attempt: Attempt) -> None:
    """A line and its correction."""
    during = DateTimeTZRange(timezone.now(), None)
    lease = Lease.objects.create(grant=attempt.grant, node=factories.node(), device=0, during=during)
    price = Price.objects.create(pool=lease.node.pool, per_device_hour=1, starts_at=timezone.now())
    by = {"used_by_kind": "job", "used_by_id": job.pk}
    usage = Usage.objects.create(
        lease=lease, project=project, epoch=1, category=Usage.Category.values[0], seconds=1, **by
    )
    amounts = {"workspace": workspace, "project": project, "usage": usage, "price": price, "per_device_hour": 1}
    line = LedgerLine.objects.create(**amounts, **by, seconds=1, amount=1, currency="USD")
    LedgerLine.objects.create(**amounts, **by, seconds=-1, amount=-1, currency="USD", corrects=line)


def end(job: Job) -> None:
    """The processes of the job are confirmed dead."""
    Attempt.objects.filter(job=job).update(ended_at=timezone.now())
    job_transition(job_id=job.pk, to=State.CANCELLED, reason="Stopped.")


def everything_in_the_database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        parts = []
        for table in tables:
            cursor.execute(f"SELECT coalesce(string_agg(row_to_json(t)::text, chr(10)), '') FROM \"{table}\" t")
            parts.append(f"-- {table}\n{cursor.fetchone()[0]}")
    return "\n".join(parts)


def test_nothing_of_it_stays_in_any_table_or_in_storage(
    workspace: Any, project: Any, alice: Any, bob: Any, mallory: Any, storage: Storage
):
    job = fill(workspace, project, alice, storage)
    attempt_id = Attempt.objects.get(job=job).pk
    # The same bytes belong to another team too, and stay for it.
    theirs = dataset_upload(
        project=mallory.workspaces.get().projects.get(), name="Theirs", file=io.BytesIO(ROWS),
        file_name="rows.jsonl", actor=mallory,
    )  # fmt: skip
    ids = {str(workspace.pk), str(project.pk), str(job.pk), str(attempt_id)}
    assert all(word in everything_in_the_database() for word in (MARK, *ids))
    workspace_close(workspace=workspace, typed_name=workspace.name, actor=alice)
    end(job)
    assert closed_remove() == [workspace.pk]
    left = everything_in_the_database()
    assert MARK not in left
    # One line of the log stays with the installation, and the history of the device names its holder by number alone.
    tables = {part.splitlines()[0] for part in left.split("-- ")[1:] if any(word in part for word in ids)}
    assert tables == {"workspaces_auditevent", "compute_request"}
    assert left.count(str(workspace.pk)) == 1
    for model in apps.get_models():
        path = getattr(model, "workspace_path", None)
        if path:
            assert not model._default_manager.filter(**{path: workspace.pk}).exists(), model
    assert list(storage.list()) == [theirs.object_key]
    assert closed_remove() == []


def test_every_app_with_rows_of_a_team_has_a_holding():
    told = {holding.name for holding in holdings.all_holdings()} | {"workspaces"}
    owners = {model._meta.app_label for model in apps.get_models() if getattr(model, "workspace_path", None)}
    assert owners <= told


def test_from_that_moment_nobody_reaches_it_while_its_jobs_are_still_being_stopped(
    workspace: Any, project: Any, alice: Any, bob: Any, storage: Storage, client: Client
):
    job = fill(workspace, project, alice, storage)
    _token, key = token_create(user=bob, workspace=workspace, name="bob's")
    client.force_login(bob)
    workspace_close(workspace=workspace, typed_name=workspace.name, actor=alice)
    job.refresh_from_db()
    assert job.state == State.CANCELLING
    assert client.get(reverse("project-home", args=[project.pk])).status_code == 404
    assert client.get(reverse("members", args=[workspace.pk])).status_code == 404
    assert token_authenticate(key=key) is None
    assert closed_remove() == [], "not while a process may still write"
    assert Job.objects.filter(pk=job.pk).exists()
    told = Message.objects.get(key__startswith="workspace-deleted:")
    assert (told.recipient, told.subject) == (bob.email, "A workspace of yours was deleted")
    assert workspace.name not in told.text
    end(job)
    assert closed_remove() == [workspace.pk]


def test_a_removal_that_fails_in_storage_is_taken_up_again(
    workspace: Any, project: Any, alice: Any, storage: Storage, monkeypatch: pytest.MonkeyPatch
):
    job = fill(workspace, project, alice, storage)
    workspace_close(workspace=workspace, typed_name=workspace.name, actor=alice)
    end(job)
    whole = Storage.delete
    monkeypatch.setattr(Storage, "delete", lambda self, key: (_ for _ in ()).throw(OSError("storage is away")))
    assert closed_remove() == []
    assert DatasetVersion.objects.filter(dataset__project=project).exists(), "rows stay while their files do"
    monkeypatch.setattr(Storage, "delete", whole)
    assert closed_remove() == [workspace.pk]
    assert list(storage.list()) == []


def test_only_an_owner_deletes_and_only_by_typing_the_name(
    client: Client, workspace: Any, alice: Any, bob: Any, mallory: Any
):
    url = reverse("workspace-delete", args=[workspace.pk])
    Membership.objects.filter(user=bob).update(role=Role.ADMIN)
    with pytest.raises(Refused, match="Only an owner"):
        workspace_close(workspace=workspace, typed_name=workspace.name, actor=bob)
    for person, status in ((bob, 403), (mallory, 404)):
        client.force_login(person)
        assert client.post(url, {"typed_name": workspace.name}).status_code == status
    client.force_login(alice)
    page = client.post(url, {"typed_name": "acme"})
    assert "not the name" in page.content.decode()
    assert Workspace.objects.filter(pk=workspace.pk, closed_at=None).exists()
    assert client.post(url, {"typed_name": workspace.name}).status_code == 302
    assert Workspace.objects.filter(pk=workspace.pk, closed_at__isnull=False).exists()


def exported(client: Client, workspace: Any, files: str) -> zipfile.ZipFile:
    answer = client.post(reverse("workspace-export", args=[workspace.pk]), {"files": files})
    assert answer.status_code == 200
    return zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))


def test_the_export_has_every_row_and_file_and_no_key(
    client: Client, workspace: Any, project: Any, alice: Any, bob: Any, storage: Storage
):
    job = fill(workspace, project, alice, storage)
    _token, key = token_create(user=alice, workspace=workspace, name="mine")
    client.force_login(alice)
    archive = exported(client, workspace, "1")
    assert archive.testzip() is None
    names = set(archive.namelist())
    for name in ("people", "projects", "catalog/datasets", "jobs/jobs", "jobs/points", "jobs/log", "billing/ledger"):
        assert f"{name}.jsonl" in names
    rows = [json.loads(line) for line in archive.read("jobs/points.jsonl").splitlines()]
    assert [row["value"] for row in rows] == [1.0, 2.0]
    listed = [json.loads(line)["key"] for line in archive.read("files.jsonl").splitlines()]
    assert f"reports/{job.pk}/1.html" in listed
    assert not [key for key in listed if key.startswith("journals/")], "they hold what was masked elsewhere"
    assert {f"files/{key}" for key in listed} <= names
    version = DatasetVersion.objects.get(dataset__name=MARK)
    assert MARK.encode() in archive.read(f"files/{version.object_key}")
    everything = b"".join(archive.read(name) for name in names if not name.startswith("files/"))
    for secret in (key, f"value {MARK}", alice.password):
        assert secret.encode() not in everything
    assert b'"digest"' not in everything
    assert b'"sealed"' not in everything
    small = set(exported(client, workspace, "0").namelist())
    assert not [name for name in small if name.startswith("files/")]
    assert AuditEvent.objects.filter(action="workspace.export").count() == 2
    client.force_login(bob)
    assert client.post(reverse("workspace-export", args=[workspace.pk])).status_code == 403
