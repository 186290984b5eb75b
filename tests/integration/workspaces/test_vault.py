"""Secrets: encrypted at rest, never shown again, masked wherever text of a run is kept or shown."""

from __future__ import annotations

from io import StringIO
from typing import Any

import factories
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from job_rows import run_job

from jobs import finish
from jobs.models import Job
from jobs.services import job_transition
from jobs.states import State
from jobs.supervision import attempts_claim, journal_take
from records.models import LogLine, Rollout
from trainers.storage import Storage
from workspaces.errors import Refused
from workspaces.masking import MASKED
from workspaces.models import AuditEvent, Membership, Role, Secret
from workspaces.vault import mask_of, secret_delete, secret_set, secret_value

pytestmark = pytest.mark.django_db
VALUE = "hf_Zk3vQ9mSx7TrW2pL"


def keep(workspace: Any, actor: Any, name: str = "HF_TOKEN", value: str = VALUE, kind: str = "hub") -> Secret:
    return secret_set(workspace=workspace, name=name, value=value, kind=kind, actor=actor)


def test_the_value_lies_encrypted_and_comes_back_for_the_platform_only(workspace: Any, alice: Any):
    secret = keep(workspace, alice)
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(s)::text FROM workspaces_secret s")
        stored = cursor.fetchone()[0]
    assert VALUE not in stored
    assert secret.hint == VALUE[-4:]
    assert secret_value(workspace, "hf_token") == VALUE
    assert secret_value(workspace.pk, "HF_TOKEN") == VALUE
    secret.refresh_from_db()
    assert secret.last_used_at is not None
    assert VALUE not in repr(list(AuditEvent.objects.values()))


def test_a_secret_of_another_team_is_not_found(workspace: Any, alice: Any, mallory: Any):
    keep(workspace, alice)
    with pytest.raises(Refused, match="no secret called HF_TOKEN"):
        secret_value(mallory.workspaces.get(), "HF_TOKEN")


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("", VALUE, "name"),
        ("1st", VALUE, "name"),
        ("a b", VALUE, "name"),
        ("x" * 65, VALUE, "name"),
        ("OK", "short", "value"),
        ("OK", "   short   ", "value"),
        ("OK", "x" * 20_001, "value"),
        ("OK", "with\x00nul bytes", "value"),
    ],
)
def test_it_refuses(workspace: Any, alice: Any, name: str, value: str, field: str):
    with pytest.raises(Refused) as refused:
        keep(workspace, alice, name, value)
    assert refused.value.field == field
    assert not Secret.objects.exists()


def test_replacing_keeps_one_row_and_deleting_none(workspace: Any, alice: Any):
    keep(workspace, alice)
    second = keep(workspace, alice, "hf_token", "another value 123")
    assert secret_value(workspace, "HF_TOKEN") == "another value 123"
    assert Secret.objects.count() == 1
    secret_delete(secret=second, actor=alice)
    assert not Secret.objects.exists()
    actions = AuditEvent.objects.filter(object_kind="secret").values_list("action", flat=True)
    assert sorted(actions) == ["secret.create", "secret.delete", "secret.replace"]


def test_a_short_value_gives_no_hint(workspace: Any, alice: Any):
    assert keep(workspace, alice, value="tiny-one!").hint == ""


def test_a_new_signing_key_reads_the_old_ones_and_the_command_moves_on(workspace: Any, alice: Any, settings: Any):
    keep(workspace, alice)
    old = settings.SECRET_KEY
    settings.SECRET_KEY = "a completely new key"
    with pytest.raises(Refused, match="cannot be read any more"):
        secret_value(workspace, "HF_TOKEN")
    assert not mask_of(workspace.pk)
    settings.SECRET_KEY_FALLBACKS = [old]
    assert secret_value(workspace, "HF_TOKEN") == VALUE
    out = StringIO()
    call_command("reseal_secrets", stdout=out)
    assert "1 secret" in out.getvalue()
    settings.SECRET_KEY_FALLBACKS = []
    assert secret_value(workspace, "HF_TOKEN") == VALUE


def test_no_page_shows_a_value_even_after_an_error(client: Client, workspace: Any, alice: Any, bob: Any):
    url = reverse("secrets", args=[workspace.pk])
    client.force_login(alice)
    bad = client.post(url, {"name": "no name", "kind": "hub", "value": VALUE}).content.decode()
    assert "begins with a letter" in bad
    assert VALUE not in bad
    assert client.post(url, {"name": "HF_TOKEN", "kind": "hub", "value": VALUE}).status_code == 302
    for person in (alice, bob):
        client.force_login(person)
        page = client.get(url).content.decode()
        assert "HF_TOKEN" in page
        assert f"…{VALUE[-4:]}" in page
        assert VALUE not in page
    assert client.post(url, {"name": "X_TOKEN", "kind": "hub", "value": VALUE}).status_code == 403
    assert client.post(reverse("secret-delete", args=[workspace.pk, Secret.objects.get().pk])).status_code == 403
    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    assert client.get(url).status_code == 403


def test_logs_samples_and_reasons_of_a_run_are_masked_as_they_come(workspace: Any, alice: Any, project: Any):
    keep(workspace, alice)
    job = factories.job(project, alice)
    attempt = run_job(job)
    attempts_claim(watcher="w")
    event = {"t": 1.0, "kind": "log", "level": "info"}
    sample = {"t": 1.0, "kind": "rollout", "step": 1, "phase": "train", "reward": 1.0}
    journal_take(
        attempt_id=attempt.pk,
        watcher="w",
        events=[
            {**event, "seq": attempt.cursor + 1, "text": f"GET https://hub.example/?token={VALUE}"},
            {**sample, "seq": attempt.cursor + 2, "prompt": f"say {VALUE}", "completion": VALUE, "answer": VALUE},
        ],
    )
    assert LogLine.objects.get().text == f"GET https://hub.example/?token={MASKED}"
    rollout = Rollout.objects.get()
    assert (rollout.prompt, rollout.completion, rollout.answer) == (f"say {MASKED}", MASKED, MASKED)
    end = {"t": 2.0, "kind": "state", "state": "failed", "seq": attempt.cursor + 3}
    journal_take(attempt_id=attempt.pk, watcher="w", events=[{**end, "error": {"message": f"401 for {VALUE}"}}])
    attempt.refresh_from_db()
    assert attempt.report["error"] == {"message": f"401 for {MASKED}"}
    job_transition(job_id=job.pk, to=State.FAILED, reason=f"401 for {VALUE}")
    job.refresh_from_db()
    assert job.reason == f"401 for {MASKED}"


def test_a_run_of_a_team_without_secrets_is_kept_as_it_is(workspace: Any, alice: Any, project: Any):
    attempt = run_job(factories.job(project, alice))
    attempts_claim(watcher="w")
    event = {"t": 1.0, "kind": "log", "level": "info", "seq": attempt.cursor + 1, "text": VALUE}
    journal_take(attempt_id=attempt.pk, watcher="w", events=[event])
    assert LogLine.objects.get().text == VALUE


def test_the_configuration_is_masked_where_it_is_shown(client: Client, workspace: Any, alice: Any, project: Any):
    keep(workspace, alice)
    job = factories.job(project, alice, name=f"with {VALUE}")
    client.force_login(alice)
    page = client.get(reverse("job", args=[project.pk, job.pk]), {"tab": "config"}).content.decode()
    start = page.index('id="spec-json"')
    shown = page[start : page.index("</pre>", start)]
    assert VALUE not in shown
    assert MASKED in shown
    assert Job.objects.get(pk=job.pk).name == f"with {VALUE}", "what is shown is not what is stored"


def test_the_report_is_masked(workspace: Any, alice: Any, project: Any, settings: Any, monkeypatch: pytest.MonkeyPatch):
    keep(workspace, alice)
    monkeypatch.setattr("jobs.report.render", lambda job: f"<p>{VALUE}</p>")
    job = factories.job(project, alice)
    run_job(job)
    Job.objects.filter(pk=job.pk).update(state=State.FINISHING)
    factories_checkpoint(job)
    finish.job_finish(job_id=job.pk)
    job.refresh_from_db()
    assert Storage(settings.STORAGE_URL).get_bytes(job.report_key) == f"<p>{MASKED}</p>".encode()


def factories_checkpoint(job: Any) -> None:
    from catalog.models import Checkpoint

    Checkpoint.objects.create(
        project=job.project, made_by_kind="job", made_by_id=job.pk, epoch=job.epoch, step=1, name="final",
        uri=f"checkpoints/{job.pk}/1/final", format="peft", files=[], size=1, final=True,
    )  # fmt: skip
