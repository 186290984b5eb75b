"""The registry: versions by name, downloads, and what it refuses."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import AsyncClient, Client
from django.urls import reverse

from catalog.archive import zip_stream
from catalog.models import BaseModel, Checkpoint, ModelVersion
from catalog.registry import model_version_create
from catalog.services import base_models_register
from trainers.storage import Storage
from workspaces.downloads import plain_name

pytestmark = pytest.mark.django_db

EVALUATION = {"before": {"accuracy": 0.25}, "after": {"accuracy": 0.97}}


@pytest.fixture
def make_version(project: Any, alice: Any, tmp_path: Path) -> Any:
    import factories

    def make(name: str = "sums") -> ModelVersion:
        job = factories.job(project, alice, name=name[:200])
        folder = tmp_path / str(job.pk)
        folder.mkdir()
        (folder / "adapter_config.json").write_text('{"r": 16}')
        (folder / "adapter_model.safetensors").write_bytes(b"weights" * 1000)
        uri = f"checkpoints/{job.pk}/1/final"
        files = Storage(settings.STORAGE_URL).put_folder(folder, uri)
        checkpoint = Checkpoint.objects.create(
            project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=20, name="final", uri=uri,
            format="peft", files=files, size=sum(file["size"] for file in files), final=True,
        )  # fmt: skip
        return model_version_create(
            project=project, name=name, checkpoint=checkpoint, base_model=job.base_model,
            made_by_kind="job", made_by_id=job.pk, evaluation=EVALUATION,
        )  # fmt: skip

    return make


def test_versions_count_up_by_name_and_a_checkpoint_is_one_version(make_version: Any, project: Any):
    first, second, other = make_version("sums"), make_version("SUMS"), make_version("else")
    assert (second.model_id, second.number, other.number) == (first.model_id, 2, 1)
    again = model_version_create(
        project=project, name="sums", checkpoint=first.checkpoint, base_model=first.base_model,
        made_by_kind="job", made_by_id=first.made_by_id, evaluation={},
    )  # fmt: skip
    assert again == first


def test_the_adapter_comes_as_a_zip_of_the_very_files(client: Client, carol: Any, project: Any, make_version: Any):
    version = make_version("so/me: name")
    client.force_login(carol)
    answer = client.get(reverse("adapter-download", args=[project.pk, version.model_id, 1]))
    assert answer["Content-Disposition"] == 'attachment; filename="so-me- name v1.zip"'
    archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    assert archive.testzip() is None
    assert archive.read("so-me- name v1/adapter_model.safetensors") == b"weights" * 1000


@pytest.mark.django_db(transaction=True)
async def test_the_zip_streams_under_asgi_too(alice: Any, project: Any, make_version: Any):
    from asgiref.sync import sync_to_async

    version = await sync_to_async(make_version)("sums")
    client = AsyncClient()
    await client.aforce_login(alice)
    answer = await client.get(reverse("adapter-download", args=[project.pk, version.model_id, 1]))
    data = b"".join([chunk async for chunk in answer.streaming_content])
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None


def test_files_that_are_gone_are_said_to_be_gone(client: Client, alice: Any, project: Any, make_version: Any):
    version = make_version()
    Storage(settings.STORAGE_URL).delete_folder(version.checkpoint.uri)
    client.force_login(alice)
    answer = client.get(reverse("adapter-download", args=[project.pk, version.model_id, 1]))
    assert answer.status_code == 410
    assert client.get(reverse("adapter-download", args=[project.pk, version.model_id, 9])).status_code == 404


def test_a_large_file_passes_through_in_pieces(tmp_path: Path):
    storage = Storage(f"file://{tmp_path}")
    storage.put_bytes("m/w.bin", bytes(5 << 20))
    pieces = list(zip_stream(storage, "m", ["w.bin"], "m"))
    assert max(map(len, pieces)) < 2 << 20
    assert zipfile.ZipFile(io.BytesIO(b"".join(pieces))).getinfo("m/w.bin").file_size == 5 << 20


def test_file_names_are_plain_whatever_people_choose():
    assert plain_name("../../etc/passwd") == "-..-etc-passwd"
    assert plain_name('a<b>"c".jsonl') == "a-b--c-.jsonl"
    assert plain_name("\r\nX: y.csv") == "--X- y.csv"
    assert plain_name("名字.jsonl") == "名字.jsonl"
    assert plain_name(" . ") == "file"
    assert len(plain_name("文" * 300 + ".jsonl").encode()) <= 200


def test_the_list_shows_the_newest_version_of_each(client: Client, carol: Any, project: Any, make_version: Any):
    make_version("<b>sums</b>")
    make_version("<b>sums</b>")
    client.force_login(carol)
    page = client.get(reverse("models", args=[project.pk])).content.decode()
    assert page.count("&lt;b&gt;sums&lt;/b&gt;") == 1
    assert "v2" in page
    assert "97.0 %" in page


def test_the_engines_models_are_registered_once(db: None):
    known = base_models_register()
    assert {model.name for model in known} >= {"smollm2-135m-instruct", "tiny-random-llama"}
    BaseModel.objects.update(title="old", enabled=False)
    base_models_register()
    assert BaseModel.objects.count() == len(known)
    smol = BaseModel.objects.get(name="smollm2-135m-instruct")
    assert "135M" in smol.title
    assert not smol.enabled, "turned off by hand stays off"
