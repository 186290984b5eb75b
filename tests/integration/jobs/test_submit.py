"""Submitting a task: what is stored, what is refused, and that one submission is one job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import factories
import pytest
from django.db import connection

from compute.models import Request
from jobs.models import Job
from jobs.services import job_submit
from trainers.spec import SpecError
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db


def test_it_stores_the_whole_spec_and_queues_for_devices(alice, project):
    factories.node(devices=2)
    job = factories.job(project, alice)
    assert job.state == "queued"
    assert job.spec["hyperparameters"]["learning_rate"] == 2e-4, "defaults are written down with the job"
    request = Request.objects.get(holder_id=job.pk)
    assert (request.holder_kind, request.epoch, request.device_kind, request.devices) == ("job", 1, "cpu", 2)
    assert list(job.timeline.values_list("to_state", "actor_label")) == [("queued", str(alice))]
    assert AuditEvent.objects.filter(action="job.submit", object_id=str(job.pk), actor=alice).exists()


def test_the_same_key_gives_the_same_job(alice, project):
    first = factories.job(project, alice, key="once")
    again = factories.job(project, alice, key="once")
    assert first == again
    assert Job.objects.count() == Request.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_submissions_at_once_make_one_job(alice, project):
    factories.base_model()
    spec = factories.spec(factories.dataset_version(project))

    def submit(_: int) -> Job:
        try:
            return job_submit(project=project, spec=spec, submitted_by=alice, idempotency_key="double click")
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        jobs = list(pool.map(submit, range(6)))
    assert len({job.pk for job in jobs}) == 1
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("parts", "path", "words"),
    [
        ({"data": {"source": "math.json"}}, "data.source", "dataset:<id>@<number>"),
        ({"data": {"source": "dataset:00000000-0000-0000-0000-000000000000@1"}}, "data.source", "no dataset"),
        ({"model": {"base": "gpt-17"}}, "model.base", "tiny-random-llama"),
        ({"hyperparameters": {"lr": 1}}, "hyperparameters.lr", "no such field"),
        ({"reward": None}, "reward", "choose one"),
    ],
)
def test_it_refuses_by_the_name_of_the_field(alice, project, parts, path, words):
    with pytest.raises(SpecError) as caught:
        factories.job(project, alice, **parts)
    assert [(found, words in message) for found, message in caught.value.errors] == [(path, True)]
    assert not Job.objects.exists() and not Request.objects.exists()


def test_a_dataset_of_another_project_does_not_exist_here(alice, project, workspace):
    other = type(project).objects.create(workspace=workspace, name="other")
    version = factories.dataset_version(other)
    with pytest.raises(SpecError, match="no dataset"):
        factories.job(project, alice, data={"source": version.source})


def test_columns_chosen_at_upload_are_written_into_the_task(alice, project):
    factories.base_model()
    columns = [
        {"name": "frage", "part": "prompt", "reason": "chosen by you"},
        {"name": "lösung", "part": "answer", "reason": "chosen by you"},
    ]
    version = factories.dataset_version(project, report={"columns": columns})
    data = {"source": version.source, "columns": {"answer": "other"}}
    job = job_submit(
        project=project, spec=factories.spec(version, data=data), submitted_by=alice, idempotency_key="columns"
    )
    chosen = {part: name for part, name in job.spec["data"]["columns"].items() if name}
    assert chosen == {"prompt": "frage", "answer": "other"}
