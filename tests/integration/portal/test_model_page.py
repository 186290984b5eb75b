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
