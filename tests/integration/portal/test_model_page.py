"""The page of a model: what was measured, where it comes from, and the merged weights on request."""

from __future__ import annotations

from typing import Any

import factories
import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Checkpoint, ModelVersion
from catalog.registry import merged_failed, merged_record, model_version_create
from jobs import merging
from jobs.models import Job

pytestmark = pytest.mark.django_db

SIDE = {"accuracy": 0.9727, "reward": 1.02, "accuracy_greedy": None, "samples": 256}


@pytest.fixture
def version(project: Any, alice: Any) -> ModelVersion:
    job = factories.job(project, alice, name="sums <b>")
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=20, name="final", uri="checkpoints/x",
        format="peft", files=[{"name": "adapter.safetensors", "size": 10, "sha256": "ab" * 32}], size=10, final=True,
    )  # fmt: skip
    return model_version_create(
        project=project, name=job.name, checkpoint=checkpoint, base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={"before": {"accuracy": 0.25}, "after": SIDE},
    )  # fmt: skip


def url(version: ModelVersion, name: str = "model") -> str:
    project = version.model.project_id
    return reverse(name, args=[project, version.model_id] + ([version.number] if name != "model" else []))


def test_it_shows_measures_and_lineage(client: Client, carol: Any, version: ModelVersion):
    client.force_login(carol)
    page = client.get(url(version)).content.decode()
    assert "sums &lt;b&gt;" in page
    assert "25.0 %" in page
    assert "97.3 %" in page
    job = version.job if hasattr(version, "job") else None
    assert job is None or reverse("job", args=[version.model.project_id, job.pk]) in page
    assert reverse("job", args=[version.model.project_id, version.made_by_id]) in page
    assert "adapter.safetensors" in page


def test_a_version_outlives_what_made_it(client: Client, carol: Any, version: ModelVersion):
    ModelVersion.objects.update(made_by_kind="session", evaluation={})
    client.force_login(carol)
    page = client.get(url(version)).content.decode()
    assert "measured nothing" in page


def test_merged_weights_are_asked_for_once(
    client: Client,
    bob: Any,
    carol: Any,
    version: ModelVersion,
    monkeypatch: Any,
    django_capture_on_commit_callbacks: Any,
):
    woken: list[Any] = []
    monkeypatch.setattr(merging, "_wake", woken.append)
    client.force_login(carol)
    assert client.post(url(version, "merged-make")).status_code == 403
    client.force_login(bob)
    assert client.get(url(version, "merged-make")).status_code == 405
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(2):
            answer = client.post(url(version, "merged-make"), headers={"HX-Request": "true"})
            assert "Merging" in answer.content.decode()
    assert woken == [version.pk]
    assert client.get(url(version, "merged-download")).status_code == 404
    merged_failed(version=version, error="Out of memory <b>.")
    state = client.get(url(version, "merged-state")).content.decode()
    assert "Out of memory &lt;b&gt;." in state
    assert "Merge again" in state
    merged_record(version=version, uri="merged/x")
    assert url(version, "merged-download") in client.get(url(version)).content.decode()
    gone = client.get(url(version, "merged-download"))
    assert gone.status_code == 503
    assert "not in" in gone.content.decode()


def test_an_alias_is_added_moved_and_its_history_shown(client: Client, bob: Any, version: ModelVersion):
    client.force_login(bob)
    model = version.model
    client.post(reverse("model-alias", args=[model.project_id, model.pk]), {"name": "production", "version": "1"})
    page = client.get(url(version)).content.decode()
    assert "production" in page and bob.email in page
    stale = client.post(
        reverse("model-alias", args=[model.project_id, model.pk]),
        {"name": "production", "version": "1", "expected": "4"},
        follow=True,
    )
    assert "somebody moved it meanwhile" in stale.content.decode()
    client.post(reverse("model-unalias", args=[model.project_id, model.pk]), {"name": "production"})
    assert not model.aliases.exists() and model.alias_moves.count() == 2


def test_notes_of_strangers_do_nothing(client: Client, bob: Any, version: ModelVersion):
    client.force_login(bob)
    model = version.model
    hostile = "**bold** <script>alert(1)</script> [x](javascript:alert(1))"
    client.post(
        reverse("model-describe", args=[model.project_id, model.pk]), {"description": hostile, "tags": "a, <b>"}
    )
    client.post(reverse("model-note", args=[model.project_id, model.pk, 1]), {"notes": hostile})
    page = client.get(url(version)).content.decode()
    assert page.count("<strong>bold</strong>") == 2
    assert "<script>alert" not in page and 'href="javascript' not in page and "<b>" not in page


def test_a_version_is_deleted_unless_an_alias_points_to_it(client: Client, bob: Any, version: ModelVersion):
    client.force_login(bob)
    model = version.model
    aliases = reverse("model-alias", args=[model.project_id, model.pk])
    delete = reverse("model-version-delete", args=[model.project_id, model.pk, 1])
    client.post(aliases, {"name": "production", "version": "1"})
    assert "An alias points to it" in client.post(delete, follow=True).content.decode()
    client.post(reverse("model-unalias", args=[model.project_id, model.pk]), {"name": "production"})
    assert client.post(delete)["Location"] == reverse("models", args=[model.project_id])
    assert not ModelVersion.objects.exists()


def test_two_versions_stand_side_by_side(client: Client, carol: Any, version: ModelVersion, project: Any, alice: Any):
    job = factories.job(project, alice, name="sums <b>", hyperparameters={"steps": 9})
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=9, name="final", uri="checkpoints/y",
        format="peft", files=[], size=1, final=True,
    )  # fmt: skip
    model_version_create(
        project=project, name=job.name, checkpoint=checkpoint, base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={"after": {"accuracy": 0.5}},
    )  # fmt: skip
    client.force_login(carol)
    page = client.get(reverse("model-compare", args=[project.pk, version.model_id])).content.decode()
    for text in ("97.3 %", "50.0 %", "Steps", "47.3 %</td>"):
        assert text in page, text


def test_a_dataset_and_a_version_show_both_directions(client: Client, carol: Any, version: ModelVersion, alice: Any):
    job = Job.objects.get(pk=version.made_by_id)
    Job.objects.filter(pk=job.pk).update(model_version=version)
    follower = factories.job(
        job.project, alice, name="follower", model={"base": "tiny-random-llama", "start_from": version.source}
    )
    client.force_login(carol)
    address = reverse("dataset-usage", args=[job.project_id, job.dataset_version.dataset_id])
    usage = client.get(address).content.decode()
    assert reverse("job", args=[job.project_id, job.pk]) in usage and "sums &lt;b&gt; v1" in usage
    assert reverse("job", args=[job.project_id, follower.pk]) in client.get(url(version)).content.decode()
