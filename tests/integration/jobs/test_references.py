"""A task may name a model to start from, a teacher, or the tasks of an environment; the project must have them."""

from __future__ import annotations

from uuid import uuid4

import factories
import pytest
from job_rows import run_job

from catalog.models import Checkpoint, Dataset
from catalog.registry import model_version_create
from jobs.dispatch import launch_of
from jobs.finish import job_finish
from jobs.models import Job
from jobs.services import job_transition
from jobs.states import State
from trainers.spec import SpecError
from trainers.storage import Storage
from workspaces.vault import secret_set

pytestmark = pytest.mark.django_db

FILES = [{"name": "adapter_model.safetensors", "size": 3, "sha256": "0" * 64}]


@pytest.fixture
def checkpoint(project):
    return Checkpoint.objects.create(
        project=project,
        made_by_kind="job",
        made_by_id=uuid4(),
        epoch=1,
        step=5,
        name="final",
        uri="checkpoints/a/1/final",
        format="peft",
        files=FILES,
        final=True,
    )


@pytest.fixture
def version(project, checkpoint):
    return model_version_create(
        project=project,
        name="adder",
        checkpoint=checkpoint,
        base_model=factories.base_model(),
        made_by_kind="job",
        made_by_id=checkpoint.made_by_id,
        evaluation={},
    )


def launch(job):
    return launch_of(run_job(job), [0])


def test_training_starts_from_a_model_version_or_a_checkpoint(alice, project, version, checkpoint):
    for index, name in enumerate((f"model:{version.model_id}@{version.number}", f"checkpoint:{checkpoint.pk}")):
        job = factories.job(
            project, alice, key=f"start {index}", model={"base": "tiny-random-llama", "start_from": name}
        )
        start = launch(job).start_from
        assert start.key == "checkpoints/a/1/final" and start.files == FILES


def test_without_a_start_nothing_is_fetched(alice, project):
    made = launch(factories.job(project, alice))
    assert made.start_from is made.teacher_model is made.teacher_adapter is None
    assert made.resume_from == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adder", "must name a model version"),
        ("model:00000000-0000-0000-0000-000000000000@1", "this project has no model:"),
        ("checkpoint:00000000-0000-0000-0000-000000000000", "this project has no checkpoint:"),
        (f"model:{'-' * 36}@1", "this project has no model:"),
    ],
)
def test_a_start_that_is_not_there_is_refused(alice, project, name, words):
    with pytest.raises(SpecError) as caught:
        factories.job(project, alice, model={"base": "tiny-random-llama", "start_from": name})
    ((path, message),) = caught.value.errors
    assert path == "model.start_from" and words in message


def test_a_model_of_another_project_does_not_exist_here(alice, project, workspace, version):
    other = type(project).objects.create(workspace=workspace, name="other")
    with pytest.raises(SpecError, match="this project has no model"):
        factories.job(other, alice, model={"base": "tiny-random-llama", "start_from": f"model:{version.model_id}@1"})


def test_an_adapter_of_another_base_model_is_refused(alice, project, version):
    factories.base_model("another")
    with pytest.raises(SpecError, match="it was trained on tiny-random-llama, and the base model here is another"):
        factories.job(project, alice, model={"base": "another", "start_from": f"model:{version.model_id}@1"})


def test_a_teacher_is_resolved_with_its_adapter(alice, project, version):
    factories.base_model("student")
    parts = {"recipe": "distill", "reward": None, "loss": {}, "model": {"base": "student"}}
    teacher = {"teacher": "tiny-random-llama", "teacher_adapter": f"model:{version.model_id}@1"}
    made = launch(factories.job(project, alice, **parts, distillation=teacher))
    assert made.teacher_model == "tiny-random-llama" and made.teacher_adapter.key == "checkpoints/a/1/final"
    with pytest.raises(SpecError, match="no base model called 'gpt-17'"):
        factories.job(project, alice, key="2", **parts, distillation={"teacher": "gpt-17"})
    with pytest.raises(SpecError, match="trained on tiny-random-llama, and the base model here is student"):
        factories.job(project, alice, key="3", **parts, distillation={"teacher_adapter": teacher["teacher_adapter"]})


def test_an_environments_tasks_become_a_dataset_once(alice, project):
    parts = {"data": {"source": "environment"}, "environment": {"kind": "countdown"}, "reward": None}
    first, second = (factories.job(project, alice, key=str(n), **parts) for n in range(2))
    assert first.dataset_version == second.dataset_version
    assert first.spec["data"]["source"] == first.dataset_version.source
    made = Dataset.objects.get(name="Tasks of countdown")
    assert made.versions.get().usable_rows > 500


def test_a_job_that_only_measures_ends_without_a_model(alice, project):
    job = factories.job(project, alice, recipe="evaluate", loss={})
    run_job(job)
    after = {"accuracy": 0.5, "reward": 0.4, "accuracy_greedy": None, "samples": 8}
    result = {"before": None, "after": after, "steps": 0, "tokens": 10, "train_seconds": 0.0, "eval_prompts": 4}
    job_transition(job_id=job.pk, to=State.FINISHING, reason="", result=result)
    job_finish(job_id=job.pk)
    job = Job.objects.get(pk=job.pk)
    assert (job.state, job.model_version, job.reason) == ("succeeded", None, "Accuracy on held-out prompts is 50.0%.")
    assert job.report_key


def test_the_report_of_a_job_that_only_measures_hides_the_teams_secrets(alice, project, settings, monkeypatch):
    secret_set(workspace=project.workspace, name="KEY", value="sk-0123456789", actor=alice)
    monkeypatch.setattr("jobs.report.render", lambda job: "<p>sk-0123456789</p>")
    job = factories.job(project, alice, recipe="evaluate", loss={})
    run_job(job)
    job_transition(job_id=job.pk, to=State.FINISHING, reason="", result={"before": None, "after": None})
    job_finish(job_id=job.pk)
    report = Storage(settings.STORAGE_URL).get_bytes(Job.objects.get(pk=job.pk).report_key)
    assert report.startswith(b"<p>") and b"sk-0123456789" not in report


def test_all_weights_are_a_merged_model_already(alice, project, checkpoint):
    job = factories.job(project, alice, model={"base": "tiny-random-llama", "adapter": {"kind": "full"}})
    run_job(job)
    Checkpoint.objects.filter(pk=checkpoint.pk).update(made_by_id=job.pk, format="full")
    job_transition(job_id=job.pk, to=State.FINISHING, reason="", result={"before": None, "after": None})
    job_finish(job_id=job.pk)
    version = Job.objects.get(pk=job.pk).model_version
    assert (version.merged, version.merged_uri) == ("ready", checkpoint.uri)
    with pytest.raises(SpecError, match="holds no adapter"):
        factories.job(project, alice, model={"base": "tiny-random-llama", "start_from": f"model:{version.model_id}@1"})


def test_all_weights_cannot_start_from_an_adapter(alice, project, version):
    model = {"base": "tiny-random-llama", "adapter": {"kind": "full"}, "start_from": f"model:{version.model_id}@1"}
    with pytest.raises(SpecError, match="leave it out"):
        factories.job(project, alice, model=model)


JUDGE = {"kind": "judge", "endpoint": "https://api.example.com/v1", "model": "referee", "prompt": "{completion}"}


def test_the_key_of_a_judge_is_read_at_dispatch_and_kept_nowhere(alice, project):
    secret_set(workspace=project.workspace, name="JUDGE_KEY", value="sk-0123456789", actor=alice)
    reward = {"components": [{"kind": "exact"}, {**JUDGE, "secret": "judge_key"}]}
    job = factories.job(project, alice, reward=reward)
    made = launch(job)
    assert made.secrets == {"judge_key": "sk-0123456789"}
    assert "sk-0123456789" not in repr(made) and "sk-0123456789" not in str(job.spec)


def test_a_judge_without_its_key_is_refused_before_it_costs_anything(alice, project):
    reward = {"components": [{"kind": "exact"}, {**JUDGE, "secret": "NOT_THERE"}]}
    with pytest.raises(SpecError) as caught:
        factories.job(project, alice, reward=reward)
    [(path, message)] = caught.value.errors
    assert path == "reward.components.1.secret" and "'NOT_THERE'" in message
