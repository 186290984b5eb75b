"""Aliases, descriptions and the deletion of models: one version per alias at any moment, and storage that is freed."""

from __future__ import annotations

import itertools
import re
import threading
from typing import Any

import factories
import pytest
from django.conf import settings as django_settings
from django.db import connection

from catalog import discarding
from catalog.aliases import alias_move, alias_remove
from catalog.code_version import code_version
from catalog.models import AliasMove, Checkpoint, Discarded, ModelAlias, ModelVersion, TrainedModel
from catalog.registry import (
    merged_record,
    model_delete,
    model_describe,
    model_version_create,
    model_version_delete,
    model_version_note,
)
from catalog.selectors import model_version_named
from jobs.model_use import jobs_from
from jobs.models import Job
from jobs.services import job_cancel
from trainers.storage import Storage, StorageError
from workspaces.errors import Refused
from workspaces.models import AuditEvent, Project
from workspaces.quota import usage_of

pytestmark = pytest.mark.django_db


def make_version(project: Any, job: Job, name: str = "adder", size: int = 5) -> ModelVersion:
    """A version with real files in storage."""
    number = Checkpoint.objects.count() + 1
    uri = f"checkpoints/{job.pk}/1/final-{number}"
    Storage(django_settings.STORAGE_URL).put_bytes(f"{uri}/adapter_model.safetensors", b"x" * size)
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=4, name=f"final {number}", uri=uri,
        format="peft", files=[{"name": "adapter_model.safetensors", "size": size, "sha256": "0" * 64}], size=size,
    )  # fmt: skip
    return model_version_create(
        project=project, name=name, checkpoint=checkpoint, base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={},
    )  # fmt: skip


@pytest.fixture
def job(project, alice) -> Job:
    return factories.job(project, alice)


@pytest.fixture
def versions(project, job) -> list[ModelVersion]:
    return [make_version(project, job) for _ in range(3)]


def stored(uri: str) -> list[str]:
    return list(Storage(django_settings.STORAGE_URL).list(uri))


def test_an_alias_moves_and_every_move_is_kept(alice, versions):
    model = versions[0].model
    alias_move(model=model, name="Production", number=1, actor=alice)
    alias_move(model=model, name="production", number=3, actor=alice)
    alias_move(model=model, name="production", number=3, actor=alice)
    assert [(alias.name, alias.version.number) for alias in model.aliases.all()] == [("production", 3)]
    alias_remove(model=model, name="production", actor=None)
    moves = [(move.name, move.from_number, move.to_number, move.actor_label) for move in AliasMove.objects.all()]
    assert moves == [
        ("production", 3, None, "platform"),
        ("production", 1, 3, alice.email),
        ("production", None, 1, alice.email),
    ]
    assert AuditEvent.objects.filter(action="model.alias").count() == 3


@pytest.mark.parametrize("name", ["", "3", "v3", "latest", "-x", "über", "a" * 65, "a b", "<b>"])
def test_a_name_that_is_no_alias_is_refused(alice, versions, name):
    with pytest.raises(Refused):
        alias_move(model=versions[0].model, name=name, number=1, actor=alice)


def test_a_move_that_expects_something_else_is_refused(alice, versions):
    model = versions[0].model
    alias_move(model=model, name="production", number=1, actor=alice, expected=0)
    with pytest.raises(Refused, match="points to v1 now"):
        alias_move(model=model, name="production", number=2, actor=alice, expected=3)
    with pytest.raises(Refused, match="no version 9"):
        alias_move(model=model, name="production", number=9, actor=alice)
    assert model.aliases.get().version.number == 1


@pytest.mark.django_db(transaction=True)
def test_at_any_moment_exactly_one_version_is_production(alice, project, job):
    """Trap of staged registries: two moves at once left two versions in production, or none."""
    made = [make_version(project, job) for _ in range(4)]
    model = made[0].model
    alias_move(model=model, name="production", number=1, actor=alice)
    counts: list[int] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def move(number: int) -> None:
        try:
            for _ in range(10):
                alias_move(model=model, name="production", number=number, actor=alice)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    def watch() -> None:
        try:
            while not done.is_set():
                counts.append(ModelAlias.objects.filter(model=model, name="production").count())
        finally:
            connection.close()

    movers = [threading.Thread(target=move, args=(number,)) for number in (2, 3, 4)]
    watcher = threading.Thread(target=watch)
    watcher.start()
    for thread in movers:
        thread.start()
    for thread in movers:
        thread.join(30)
    done.set()
    watcher.join(30)
    assert failures == []
    assert set(counts) == {1}
    moves = list(AliasMove.objects.filter(model=model).order_by("id").values_list("from_number", "to_number"))
    # A chain without a gap: what one move left is what the next one found.
    assert all(after[0] == before[1] for before, after in itertools.pairwise(moves))
    assert moves[-1][1] == model.aliases.get().version.number


def test_a_version_is_found_by_id_name_number_and_alias(alice, project, versions):
    other_project = Project.objects.create(workspace=project.workspace, name="Other", created_by=alice)
    model = versions[0].model
    alias_move(model=model, name="production", number=2, actor=alice)
    for text, number in (
        (f"model:{model.pk}@2", 2),
        ("model:adder@production", 2),
        ("model:ADDER@v3", 3),
        (f"model:{model.pk}@production", 2),
        ("model:adder@9", None),
        ("model:adder@candidate", None),
        ("model:adder", None),
        ("model:adder@99999999999999999999", None),
    ):
        found = model_version_named(project, text)
        assert (found.number if found else None) == number, text
    assert model_version_named(other_project, f"model:{model.pk}@2") is None


def test_a_task_pins_the_version_that_an_alias_points_to(alice, project, versions):
    model = versions[0].model
    alias_move(model=model, name="production", number=2, actor=alice)
    job = factories.job(project, alice, model={"base": "tiny-random-llama", "start_from": "model:adder@production"})
    alias_move(model=model, name="production", number=3, actor=alice)
    assert Job.objects.get(pk=job.pk).spec["model"]["start_from"] == f"model:{model.pk}@2"
    assert list(jobs_from([versions[1]])) == [job]
    assert list(jobs_from([versions[2]])) == []


def test_deleting_a_version_frees_its_storage_and_the_usage_falls(
    alice, project, versions, django_capture_on_commit_callbacks
):
    version = versions[1]
    uri = version.checkpoint.uri
    merged_record(version=version, uri=f"merged/{version.pk}")
    Storage(django_settings.STORAGE_URL).put_bytes(f"merged/{version.pk}/model.safetensors", b"y" * 9)
    before = usage_of(project.workspace).used
    with django_capture_on_commit_callbacks(execute=True):
        model_version_delete(version=ModelVersion.objects.get(pk=version.pk), actor=alice)
    assert stored(uri) == stored(f"merged/{version.pk}") == []
    assert stored(versions[0].checkpoint.uri) != []
    assert before - usage_of(project.workspace).used == 5 + 4 * version.base_model.parameters
    assert not Discarded.objects.exists() and not Checkpoint.objects.filter(uri=uri).exists()
    assert [row.number for row in versions[0].model.versions.all()] == [3, 1]


def test_files_that_storage_does_not_let_go_are_tried_again(
    alice, versions, monkeypatch, django_capture_on_commit_callbacks
):
    uri = versions[0].checkpoint.uri

    def refuse(*_: object) -> None:
        raise StorageError("unreachable", "down")

    # The callbacks run while storage is away.
    with monkeypatch.context() as broken:
        broken.setattr(Storage, "delete_folder", refuse)
        with django_capture_on_commit_callbacks(execute=True):
            model_version_delete(version=versions[0], actor=alice)
        assert [row.uri for row in Discarded.objects.all()] == [uri]
        assert discarding.discarded_remove() == 0
    assert stored(uri) != []
    assert discarding.discarded_remove() == 1
    assert stored(uri) == [] and not Discarded.objects.exists()


def test_files_that_another_row_refers_to_are_kept(alice, project, versions, django_capture_on_commit_callbacks):
    shared = versions[0].checkpoint
    Checkpoint.objects.filter(pk=versions[1].checkpoint_id).update(uri=shared.uri)
    with django_capture_on_commit_callbacks(execute=True):
        model_version_delete(version=ModelVersion.objects.get(pk=versions[0].pk), actor=alice)
    assert stored(shared.uri) != []


def test_what_an_alias_or_a_job_needs_stays(alice, project, versions, django_capture_on_commit_callbacks):
    model = versions[0].model
    source = versions[1].source
    alias_move(model=model, name="production", number=1, actor=alice)
    with pytest.raises(Refused, match=r"production \(v1\)"):
        model_version_delete(version=versions[0], actor=alice)
    with pytest.raises(Refused, match="production"):
        model_delete(model=model, actor=alice)
    job = factories.job(project, alice, model={"base": "tiny-random-llama", "start_from": "model:adder@2"})
    with pytest.raises(Refused, match="goes on from it"):
        model_version_delete(version=versions[1], actor=alice)
    assert ModelVersion.objects.filter(model=model).count() == 3
    job_cancel(job=job, actor=alice)
    alias_remove(model=model, name="production", actor=alice)
    with django_capture_on_commit_callbacks(execute=True):
        model_delete(model=model, actor=alice)
    assert not TrainedModel.objects.exists() and not Checkpoint.objects.exists()
    assert not any(f"/{versions[0].made_by_id}/" in key for key in stored("checkpoints"))
    assert Job.objects.get(pk=job.pk).spec["model"]["start_from"] == source


def test_the_model_goes_with_its_last_version(alice, project, job):
    version = make_version(project, job, "single")
    model_version_delete(version=version, actor=alice)
    assert not TrainedModel.objects.filter(name="single").exists()


def test_descriptions_tags_and_notes(alice, versions):
    model = versions[0].model
    model_describe(model=model, actor=alice, description=" **good** \r\n", tags=[" maths ", "Maths", "", "a\nb"])
    model.refresh_from_db()
    assert (model.description, model.tags) == ("**good**", ["maths", "a b"])
    model_version_note(version=versions[0], actor=alice, notes="used in the demo")
    assert ModelVersion.objects.get(pk=versions[0].pk).notes == "used in the demo"
    for refused in ({"description": "x" * 20_001}, {"tags": ["x" * 41]}, {"tags": [str(n) for n in range(21)]}):
        with pytest.raises(Refused):
            model_describe(model=model, actor=alice, **refused)


def test_a_version_says_which_code_made_it(versions):
    assert re.fullmatch(r"[\w.]+(\+[0-9a-f]{12})?", versions[0].made_with)
    assert versions[0].made_with == code_version()
