"""What is told before a job is paid for, and afterwards whether it came true."""

from __future__ import annotations

import io
from datetime import timedelta

import factories
import pytest
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job

from catalog.services import dataset_upload, reward_save
from jobs.forms import JobForm
from jobs.models import Job
from jobs.preflight import Fit, too_long
from jobs.services import job_submit
from trainers.memory import Memory
from trainers.spec import parse_spec

pytestmark = pytest.mark.django_db


def sent(project, **changes):
    form = JobForm(project=project)
    values = {name: form.value(name) for name in form.fields}
    values |= {"data.source": form.datasets[0].source, "reward": str(form.rewards[0].pk)}
    values |= {"model.base": "tiny-random-llama", "evaluation.prompts": "2"} | changes
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


@pytest.fixture
def sums(project, base, alice):
    factories.node()
    rows = "".join(f'{{"prompt": "{n} + 1?", "answer": "{n + 1}"}}\n' for n in range(8))
    reward_save(project=project, name="Right", spec={"components": [{"kind": "numeric"}]}, actor=alice)
    return dataset_upload(project=project, name="s", file=io.BytesIO(rows.encode()), file_name="s.jsonl", actor=alice)


def test_the_reward_is_tried_on_right_wrong_and_empty_answers(as_alice, project, sums):
    page = as_alice.post(reverse("job-dry-run", args=[project.pk]), sent(project))
    outcome = page.context["outcome"]
    assert [sample.case.label for sample in outcome.samples[:3]] == [
        "the reference answer",
        "another row's answer",
        "an empty completion",
    ]
    assert len(outcome.samples) == 15 and outcome.separates
    assert "It tells right from wrong" in page.content.decode()
    assert not Job.objects.exists()


def test_a_dry_run_says_what_it_lacks(as_alice, project, sums):
    address = reverse("job-dry-run", args=[project.pk])
    assert "Choose a dataset" in as_alice.post(address, sent(project, **{"data.source": ""})).content.decode()
    assert "not complete" in as_alice.post(address, sent(project, seed="many")).content.decode()


def test_memory_is_compared_with_the_device_in_a_sentence():
    memory = Memory(weights=2 * 10**9, adapter=10**7, optimizer=3 * 10**7, activations=10**9, cache=10**8)
    assert "Needs about" in Fit(memory, None).sentence
    assert Fit(memory, 10**12).fits and "lower the batch" in Fit(memory, 10**9).sentence
    assert "tight" in Fit(memory, int(memory.total * 1.05)).sentence


def test_prompts_that_are_too_long_are_told_as_a_share(version):
    task = parse_spec(factories.spec(version, hyperparameters={"max_prompt_tokens": 100}))
    bars = [{"low": 0, "high": 400, "count": 90}, {"low": 400, "high": 800, "count": 10}]
    report = {"lengths": {"prompt": {"largest": 800, "bars": bars}}, "tokens": {"per_token": 4.0, "model": "m"}}
    assert too_long(task, report).startswith("10% of the prompts have more than 100 tokens (by the tokenizer of m)")
    assert too_long(task, {}) is None


def test_a_finished_job_tells_what_was_foretold_and_a_copy_what_it_changed(as_alice, project, alice, job):
    run_job(job)
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(state="succeeded", started_at=now - timedelta(minutes=7), ended_at=now)
    page = as_alice.get(reverse("job", args=[project.pk, job.pk])).content.decode()
    assert "Foretold" in page and "7m 00s" in page
    copy = job_submit(
        project=project, spec=job.spec | {"seed": 5}, submitted_by=alice, idempotency_key="c", copied_from=job
    )
    page = " ".join(as_alice.get(reverse("job", args=[project.pk, copy.pk])).content.decode().split())
    assert "Copied from" in page and "Seed 0 → 5" in page
    assert copy.submission.estimate["learned_from"] == 1
