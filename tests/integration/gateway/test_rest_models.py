"""Trained models over HTTP: listed, and fetched as a zip or file by file."""

from __future__ import annotations

import hashlib
import io
import uuid
import zipfile

import factories
import httpx
import pytest
from django.conf import settings as django_settings
from rest_callers import V1, problem

from catalog.aliases import alias_move
from catalog.models import Checkpoint, ModelVersion
from catalog.registry import merged_record, model_version_create
from trainers.storage import Storage

pytestmark = pytest.mark.django_db
WEIGHTS = bytes(range(256)) * 12_000
CONFIG = b'{"peft_type": "LORA"}'


@pytest.fixture
def version(alice, project, tmp_path) -> ModelVersion:
    job = factories.job(project, alice)
    (tmp_path / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "adapter_config.json").write_bytes(CONFIG)
    uri = f"checkpoints/{job.pk}/1/final"
    files = Storage(django_settings.STORAGE_URL).put_folder(tmp_path, uri)
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=4, name="final", uri=uri,
        format="peft", files=files, size=len(WEIGHTS) + len(CONFIG), final=True,
    )  # fmt: skip
    return model_version_create(
        project=project,
        name="Sums / “ü”",
        checkpoint=checkpoint,
        base_model=job.base_model,
        made_by_kind="job",
        made_by_id=job.pk,
        evaluation={"after": {"accuracy": 0.9}},
    )


def test_models_are_listed_with_their_versions(as_carol, version, project):
    (model,) = as_carol.get("/models", project=str(project.pk)).json()["items"]
    assert model["name"] == version.model.name
    (listed,) = model["versions"]
    assert (listed["number"], listed["base_model"], listed["merged"]) == (1, "tiny-random-llama", "none")
    assert listed["job"] == str(version.made_by_id)
    assert listed["evaluation"] == {"after": {"accuracy": 0.9}}
    assert as_carol.get(f"/models/{version.model_id}").json() == model


def test_a_version_names_its_files_with_size_and_hash(as_carol, version):
    shown = as_carol.get(f"/model-versions/{version.pk}").json()
    assert shown["formats"]["merged"] is None
    adapter = shown["formats"]["adapter"]
    assert adapter["size"] == len(WEIGHTS) + len(CONFIG)
    assert {
        "name": "adapter_model.safetensors",
        "size": len(WEIGHTS),
        "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
    } in (adapter["files"])


def test_a_stranger_gets_no_byte(as_mallory, version):
    for path in (
        f"/models/{version.model_id}",
        f"/model-versions/{version.pk}",
        f"/model-versions/{version.pk}/download",
        f"/model-versions/{version.pk}/files/adapter/adapter_model.safetensors",
    ):
        answer = as_mallory.get(path)
        assert answer.status_code == 404, path
        problem(answer)
    assert as_mallory.post(f"/model-versions/{version.pk}/merge").status_code == 404


@pytest.mark.parametrize(
    "name", ["../final/adapter_config.json", "..%2f..%2fx", "manifest.json", "nope", "/etc/passwd"]
)
def test_only_listed_files_are_served(as_carol, version, name):
    answer = as_carol.get(f"/model-versions/{version.pk}/files/adapter/{name}")
    assert answer.status_code == 404


def test_a_format_that_is_none_is_refused(as_carol, version):
    answer = as_carol.get(f"/model-versions/{version.pk}/download", format="gguf")
    assert answer.status_code == 422
    assert problem(answer)["fields"][0]["path"] == "format"


def test_merged_weights_that_are_not_there_are_a_conflict_that_says_what_to_do(as_carol, version):
    answer = as_carol.get(f"/model-versions/{version.pk}/download", format="merged")
    assert answer.status_code == 409
    assert "merge" in problem(answer)["message"]


def test_merged_weights_are_asked_for_once_by_those_who_may(
    as_bob, as_carol, version, monkeypatch, django_capture_on_commit_callbacks
):
    asked: list[str] = []
    monkeypatch.setattr("jobs.tasks.make_merged.delay", asked.append)
    assert as_carol.post(f"/model-versions/{version.pk}/merge").status_code == 403
    for _ in range(2):
        with django_capture_on_commit_callbacks(execute=True):
            answer = as_bob.post(f"/model-versions/{version.pk}/merge")
        assert (answer.status_code, answer.json()["merged"]) == (202, "making")
    assert asked == [str(version.pk)]


def test_files_that_storage_has_lost_are_told_before_the_first_byte(as_carol, version):
    Storage(django_settings.STORAGE_URL).delete(f"{version.checkpoint.uri}/adapter_model.safetensors")
    for path in ("download", "files/adapter/adapter_model.safetensors"):
        answer = as_carol.get(f"/model-versions/{version.pk}/{path}")
        assert answer.status_code == 404
        assert "no longer in storage" in problem(answer)["message"]


def test_a_damaged_file_is_not_sent(as_carol, version):
    Storage(django_settings.STORAGE_URL).put_bytes(f"{version.checkpoint.uri}/adapter_model.safetensors", b"short")
    answer = as_carol.get(f"/model-versions/{version.pk}/files/adapter/adapter_model.safetensors")
    assert answer.status_code == 503
    assert problem(answer)["code"] == "unavailable"


def get(server, caller, path, **headers):
    url = f"{server}{V1}{path}"
    return httpx.get(url, headers={"Authorization": f"Bearer {caller.key}", **headers}, trust_env=False, timeout=30)


def test_the_zip_is_sent_whole_and_well_named(server, as_carol, version):
    answer = get(server, as_carol, f"/model-versions/{version.pk}/download")
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        content = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist()}
        assert all(name.count("/") == 1 and ".." not in name for name in archive.namelist())
    assert content == {"adapter_model.safetensors": WEIGHTS, "adapter_config.json": CONFIG}


def test_merged_weights_are_served_once_they_are_there(server, as_carol, version, tmp_path):
    folder = tmp_path / "merged"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(WEIGHTS[:1000])
    Storage(django_settings.STORAGE_URL).put_folder(folder, f"merged/{version.pk}")
    merged_record(version=version, uri=f"merged/{version.pk}")
    answer = get(server, as_carol, f"/model-versions/{version.pk}/files/merged/model.safetensors")
    assert answer.content == WEIGHTS[:1000]


@pytest.mark.parametrize(
    ("header", "status", "start"),
    [
        ("bytes=0-", 200, 0),
        ("bytes=1000-", 206, 1000),
        (f"bytes={len(WEIGHTS) - 1}-", 206, len(WEIGHTS) - 1),
        ("bytes=5-9", 200, 0),
        ("bytes=-5", 200, 0),
        ("lines=5-", 200, 0),
        ("bytes=²-", 200, 0),
        ("bytes=" + "9" * 40 + "-", 200, 0),
    ],
)
def test_a_download_can_go_on_from_a_byte(server, as_carol, version, header, status, start):
    path = f"/model-versions/{version.pk}/files/adapter/adapter_model.safetensors"
    answer = get(server, as_carol, path, Range=header.encode())
    assert answer.status_code == status
    assert answer.content == WEIGHTS[start:]
    assert answer.headers["Content-Length"] == str(len(WEIGHTS) - start)
    if start:
        assert answer.headers["Content-Range"] == f"bytes {start}-{len(WEIGHTS) - 1}/{len(WEIGHTS)}"


def test_a_byte_behind_the_end_is_refused(server, as_carol, version):
    path = f"/model-versions/{version.pk}/files/adapter/adapter_model.safetensors"
    answer = get(server, as_carol, path, Range=f"bytes={len(WEIGHTS)}-")
    assert answer.status_code == 416
    assert answer.json()["error"]["message"].startswith("The file has")


def test_an_alias_is_moved_found_and_taken_away(as_bob, as_carol, version):
    path = f"/models/{version.model_id}"
    moved = as_bob.send("PUT", f"{path}/aliases/Production", {"version": 1})
    assert moved.status_code == 200 and moved.json()["aliases"] == {"production": 1}
    assert as_carol.get(f"/model-versions/{version.pk}").json()["aliases"] == ["production"]
    stale = as_bob.send("PUT", f"{path}/aliases/production", {"version": 1, "expected": 2})
    assert stale.status_code == 422 and problem(stale)["fields"][0]["path"] == "expected"
    assert problem(as_bob.send("DELETE", f"/model-versions/{version.pk}"))["message"].startswith("An alias points")
    assert as_bob.send("DELETE", f"{path}/aliases/production").json()["aliases"] == {}
    moves = as_carol.get(f"{path}/alias-moves").json()["items"]
    assert [(move["from_number"], move["to_number"]) for move in moves] == [(1, None), (None, 1)]
    assert as_bob.send("DELETE", f"/model-versions/{version.pk}").status_code == 204
    assert as_carol.get(path).status_code == 404


def test_a_model_is_described_and_a_version_noted(as_bob, as_carol, version):
    described = as_bob.send("PATCH", f"/models/{version.model_id}", {"description": "**sums**", "tags": ["maths"]})
    assert (described.json()["description"], described.json()["tags"]) == ("**sums**", ["maths"])
    assert as_bob.send("PATCH", f"/model-versions/{version.pk}", {"notes": "first"}).json()["notes"] == "first"
    assert as_carol.send("PATCH", f"/model-versions/{version.pk}", {"notes": "no"}).status_code == 403
    assert as_bob.send("PATCH", f"/models/{version.model_id}", {"tags": ["x" * 50]}).status_code == 422


def test_many_versions_and_aliases_take_as_many_queries_as_one(
    as_carol, project, alice, version, django_assert_max_num_queries
):
    for number in range(1, 6):
        checkpoint = version.checkpoint
        checkpoint.pk, checkpoint.name = None, f"copy {number}"
        checkpoint.id = uuid.uuid4()
        checkpoint._state.adding = True
        checkpoint.save()
        other = model_version_create(
            project=project, name=version.model.name, checkpoint=checkpoint, base_model=version.base_model,
            made_by_kind="job", made_by_id=version.made_by_id, evaluation={},
        )  # fmt: skip
        alias_move(model=version.model, name=f"alias-{number}", number=other.number, actor=alice)
    with django_assert_max_num_queries(9):
        (model,) = as_carol.get("/models", project=str(project.pk)).json()["items"]
    assert len(model["aliases"]) == 5 and len(model["versions"]) == 6
