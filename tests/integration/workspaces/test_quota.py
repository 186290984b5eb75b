"""Storage: counted as it is stored, shown with a bar, and refused before anything is stored."""

from __future__ import annotations

import io
from io import StringIO
from typing import Any

import factories
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from catalog.models import Checkpoint, DatasetVersion, ModelVersion
from catalog.registry import merged_request, model_version_create
from catalog.services import dataset_upload
from jobs.models import Job
from trainers.spec import SpecError
from trainers.storage import Storage
from workspaces.closing import workspace_close
from workspaces.errors import Refused
from workspaces.quota import check_room, usage_of
from workspaces.services import quota_set

pytestmark = pytest.mark.django_db
ROWS = b'{"question": "1 + 1?", "answer": "2"}\n' * 20


def upload(project: Any, actor: Any, name: str = "Sums", rows: bytes = ROWS) -> DatasetVersion:
    return dataset_upload(project=project, name=name, file=io.BytesIO(rows), file_name="rows.jsonl", actor=actor)


def checkpoint(project: Any, job: Job, size: int, name: str = "final") -> Checkpoint:
    return Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=1, name=name,
        uri=f"checkpoints/{job.pk}/{name}", format="peft", files=[], size=size,
    )  # fmt: skip


def model(project: Any, job: Job, size: int) -> ModelVersion:
    return model_version_create(
        project=project, name=job.name, checkpoint=checkpoint(project, job, size), base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={},
    )  # fmt: skip


def test_everything_stored_is_counted_once_and_by_kind(workspace: Any, project: Any, alice: Any, mallory: Any):
    upload(project, alice)
    upload(project, alice, "The same bytes under another name")
    elsewhere = mallory.workspaces.get()
    upload(elsewhere.projects.get(), mallory)
    job = factories.job(project, alice)
    DatasetVersion.objects.filter(dataset__name__startswith="data").update(size=0)
    version = model(project, job, 1000)
    checkpoint(project, job, 300, "step-1")
    assert usage_of(workspace).parts == {"datasets": len(ROWS), "models": 1000, "checkpoints": 300}
    ModelVersion.objects.filter(pk=version.pk).update(merged=ModelVersion.Merged.READY)
    assert usage_of(workspace).parts["models"] == 1000 + 4 * job.base_model.parameters
    assert usage_of(elsewhere).used == len(ROWS)


def test_an_upload_over_the_quota_is_refused_before_it_is_stored(
    workspace: Any, project: Any, alice: Any, settings: Any, client: Client
):
    quota_set(workspace=workspace, quota_bytes=len(ROWS) + 10)
    upload(project, alice)
    before = set(Storage(settings.STORAGE_URL).list("objects"))
    with pytest.raises(Refused, match=r"The file needs 760 B, and 10 B of the workspace's .* are left") as refused:
        upload(project, alice, "More", ROWS.replace(b"1 + 1", b"2 + 0").replace(b'"2"', b'"22"')[: len(ROWS)])
    assert refused.value.field == "file"
    client.force_login(alice)
    file = io.BytesIO(ROWS.replace(b"1 + 1", b"3 + 3"))
    file.name = "more.jsonl"
    page = client.post(reverse("dataset-upload", args=[project.pk]), {"name": "More", "file": file})
    assert "are left" in page.content.decode()
    assert set(Storage(settings.STORAGE_URL).list("objects")) == before
    assert DatasetVersion.objects.count() == 1


def test_bytes_that_are_there_already_fit_a_full_workspace(workspace: Any, project: Any, alice: Any):
    first = upload(project, alice)
    quota_set(workspace=workspace, quota_bytes=1)
    assert upload(project, alice) == first
    assert upload(project, alice, "Copy").sha256 == first.sha256


def test_a_file_that_finds_the_room_taken_is_not_left_in_storage(
    workspace: Any, project: Any, alice: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    quota_set(workspace=workspace, quota_bytes=len(ROWS) + 10)
    other, before = ROWS.replace(b"1 + 1", b"4 + 4"), set(Storage(settings.STORAGE_URL).list("objects"))
    put = Storage.put_content

    def beaten(storage: Storage, stream: Any) -> Any:
        monkeypatch.setattr(Storage, "put_content", put)
        upload(project, alice, "The other")
        return put(storage, stream)

    monkeypatch.setattr(Storage, "put_content", beaten)
    with pytest.raises(Refused, match="are left"):
        upload(project, alice, "Too late", other)
    kept = DatasetVersion.objects.get()
    assert set(Storage(settings.STORAGE_URL).list("objects")) - before == {kept.object_key} - before


def test_nothing_is_uploaded_into_a_workspace_that_was_deleted_meanwhile(workspace: Any, project: Any, alice: Any):
    workspace_close(workspace=workspace, typed_name=workspace.name, actor=alice)
    with pytest.raises(Refused, match="was deleted"):
        upload(project, alice)
    assert not DatasetVersion.objects.exists()


def test_a_merged_model_over_the_quota_is_refused(workspace: Any, project: Any, alice: Any):
    job = factories.job(project, alice)
    version = model(project, job, 1000)
    quota_set(workspace=workspace, quota_bytes=100_000)
    with pytest.raises(Refused, match="The merged model needs 400\\.0 kB"):
        merged_request(version=version, actor=alice)
    version.refresh_from_db()
    assert version.merged == ModelVersion.Merged.NOT_ASKED
    quota_set(workspace=workspace, quota_bytes=0)
    assert merged_request(version=version, actor=alice)


def test_a_full_workspace_starts_no_job(workspace: Any, project: Any, alice: Any):
    job = factories.job(project, alice)
    quota_set(workspace=workspace, quota_bytes=500)
    checkpoint(project, job, 600)
    with pytest.raises(SpecError, match=r"The job needs storage, and 0 B of the workspace's 500 B are left"):
        factories.job(project, alice)
    assert Job.objects.count() == 1


def test_the_last_byte_fits_and_none_more(workspace: Any):
    quota_set(workspace=workspace, quota_bytes=100)
    check_room(workspace, 100, "It")
    with pytest.raises(Refused):
        check_room(workspace, 101, "It")


def test_the_installations_limit_holds_until_a_team_has_its_own(workspace: Any, settings: Any):
    settings.WORKSPACE_QUOTA_BYTES = 50
    assert usage_of(workspace).limit == 50
    quota_set(workspace=workspace, quota_bytes=0)
    assert usage_of(workspace).limit is None
    quota_set(workspace=workspace, quota_bytes=None)
    settings.WORKSPACE_QUOTA_BYTES = 0
    assert usage_of(workspace).limit is None


def test_the_page_shows_a_bar(client: Client, workspace: Any, project: Any, alice: Any):
    upload(project, alice)
    quota_set(workspace=workspace, quota_bytes=4 * len(ROWS))
    client.force_login(alice)
    page = client.get(reverse("workspace", args=[workspace.pk])).content.decode()
    assert 'aria-valuenow="25"' in page
    quota_set(workspace=workspace, quota_bytes=10)
    assert 'aria-valuenow="100"' in client.get(reverse("workspace", args=[workspace.pk])).content.decode()


def test_the_command_sets_and_shows_it(workspace: Any):
    out = StringIO()
    for size, stored in (("1.5GB", 1_500_000_000), ("unlimited", 0), ("default", None)):
        call_command("workspace_quota", "acme", size, stdout=out)
        workspace.refresh_from_db()
        assert workspace.quota_bytes == stored
    assert "may store 1.5 GB" in out.getvalue()
    with pytest.raises(CommandError, match="no size"):
        call_command("workspace_quota", "acme", "many")
    with pytest.raises(CommandError, match="There are: acme"):
        call_command("workspace_quota", "nobody", "1GB")
