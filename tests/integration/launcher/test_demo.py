"""What the demo makes and says, without training."""

from __future__ import annotations

import io
import stat
from typing import Any

import pytest
from rich.console import Console

from config import demo_watch
from jobs import demo
from jobs.models import Job
from jobs.states import State
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def note(tmp_path):
    return tmp_path / "demo.json"


@pytest.fixture
def out() -> Console:
    return Console(file=io.StringIO(), width=200, highlight=False)


def written(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_the_sign_in_it_prints_works_each_time(note, client):
    first = demo.sign_in(note)
    second = demo.sign_in(note)
    assert first.password and first == second
    assert client.login(email=demo.EMAIL, password=first.password) or client.login(
        username=demo.EMAIL, password=first.password
    )
    assert stat.S_IMODE(note.stat().st_mode) == 0o600


def test_a_password_that_was_changed_since_is_not_printed(note):
    user = demo.sign_in(note).user
    user.set_password("another one entirely")
    user.save()
    assert demo.sign_in(note).password is None


def test_each_run_is_a_job_of_its_own_on_the_same_versions(note):
    factories.base_model("smollm2-135m-instruct")
    who = demo.sign_in(note)
    first = demo.submit(project=who.project, user=who.user)
    second = demo.submit(project=who.project, user=who.user)
    assert first.pk != second.pk and Job.objects.count() == 2
    assert first.dataset_version == second.dataset_version
    assert first.evaluation_version == second.evaluation_version
    assert first.reward_version == second.reward_version
    samples = first.spec["evaluation"]["prompts"] * first.spec["evaluation"]["final_samples_per_prompt"]
    assert samples >= 256


def finished(job: Job, **fields: Any) -> Job:
    for name, value in fields.items():
        setattr(job, name, value)
    job.save()
    return job


def test_the_end_tells_what_was_measured(note, out):
    factories.base_model("smollm2-135m-instruct")
    who = demo.sign_in(note)
    job = finished(
        demo.submit(project=who.project, user=who.user),
        state=State.SUCCEEDED,
        report_key="reports/one.html",
        result={
            "before": {"accuracy": 0.25, "accuracy_greedy": 0.3, "samples": 264},
            "after": {"accuracy": 0.9659, "accuracy_greedy": 1.0, "samples": 264},
            "steps": 25,
            "tokens": 81_234,
            "train_seconds": 312.4,
            "eval_prompts": 22,
        },
    )
    demo_watch.report(out, job)
    text = written(out)
    assert "Accuracy on 22 held-out prompts" in text
    assert "at temperature 1, 264 samples  25.0%   96.6%" in text
    assert "5 min 12 s for 25 steps and 81,234 tokens" in text
    assert f"/jobs/{job.pk}/report/" in text


def test_a_job_that_failed_says_why_and_what_to_do(note, out):
    factories.base_model("smollm2-135m-instruct")
    who = demo.sign_in(note)
    job = finished(
        demo.submit(project=who.project, user=who.user),
        state=State.FAILED,
        reason="The driver was lost.",
        advice="Start it again.",
    )
    demo_watch.report(out, job)
    assert "The job failed. The driver was lost. Start it again." in " ".join(written(out).split())
