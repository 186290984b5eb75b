"""The job form as YAML and back, and what a copy changes."""

from __future__ import annotations

import json
import re

import factories
import pytest
from django.urls import reverse
from django.utils.html import escape

from jobs.models import Job
from jobs.spec_reading import read_task
from jobs.spec_writing import yaml_of
from trainers.spec import parse_spec
from workspaces.models import Project

pytestmark = pytest.mark.django_db


@pytest.fixture
def urls(project, base, version, reward):
    factories.node()
    names = ("job-new", "job-preview", "job-text", "job-text-file", "job-text-apply")
    return {name: reverse(name, args=[project.pk]) for name in names}


def sent(form, **changes):
    values = {name: form.value(name) for name in form.fields} | {"model.base": "tiny-random-llama"} | changes
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


def test_form_to_text_to_form_to_job_changes_nothing(as_alice, urls, reward):
    form = as_alice.get(urls["job-new"]).context["form"]
    body = sent(form, **{"hyperparameters.learning_rate": "3.3e-05", "seed": "12", "budget.amount": "1.50"})
    text = as_alice.post(urls["job-text"], body).context["text"]
    applied = as_alice.post(
        urls["job-text-apply"], {"text": text, "key": form.value("key")}, headers={"HX-Request": "true"}
    )
    assert applied.status_code == 200 and "HX-Retarget" not in applied
    again = applied.context["form"]
    assert again.value("key") == form.value("key") and again.value("reward") == str(reward.pk)
    first, second = as_alice.post(urls["job-new"], body), as_alice.post(urls["job-new"], sent(again))
    assert first.status_code == second.status_code == 302
    assert first.url == second.url, "the same task under the same key is the same job"


def test_what_is_wrong_with_a_text_is_said_by_line_and_the_form_stays(as_alice, urls, version):
    text = f"recipe: sft\ndata:\n  source: {version.source}\nhyperparameters:\n  steps: <b>many</b>\n"
    page = as_alice.post(urls["job-text-apply"], {"text": text}, headers={"HX-Request": "true"})
    assert page["HX-Retarget"] == "#text-errors"
    content = page.content.decode()
    assert "Line 5" in content and "hyperparameters.steps" in content and "<b>many" not in content
    whole = as_alice.post(urls["job-text-apply"], {"text": text})
    assert whole.status_code == 422 and escape("<b>many</b>") in whole.content.decode()


def test_an_unfinished_form_is_written_as_far_as_it_is(as_alice, urls):
    form = as_alice.get(urls["job-new"]).context["form"]
    page = as_alice.post(urls["job-text"], sent(form, **{"hyperparameters.learning_rate": "often", "size": "custom"}))
    assert "learning_rate: often" in page.context["text"]
    assert any(error.path == "hyperparameters.learning_rate" for error in page.context["text_errors"])


def test_a_text_can_be_kept_as_yaml_or_json(as_alice, urls, version):
    text = f"recipe: sft # mine\ndata: {{source: '{version.source}'}}\n"
    kept = as_alice.post(urls["job-text-file"], {"text": text, "as": "yaml"})
    assert kept.content.decode() == text and 'filename="task.yaml"' in kept["Content-Disposition"]
    as_json = as_alice.post(urls["job-text-file"], {"text": text, "as": "json"})
    assert json.loads(as_json.content) == read_task(text).model_dump(mode="json")
    wrong = as_alice.post(urls["job-text-file"], {"text": "- <script>", "as": "json"})
    assert wrong.status_code == 422 and wrong["Content-Type"].startswith("text/plain")


def test_the_text_of_every_job_makes_an_equal_one(as_alice, urls, job):
    form = as_alice.get(urls["job-new"], {"copy": str(job.pk)}).context["form"]
    text = as_alice.post(urls["job-text"], sent(form, name=job.name)).context["text"]
    assert read_task(text).model_dump(mode="json") == job.spec
    assert read_task(yaml_of(parse_spec(job.spec))).model_dump(mode="json") == job.spec


def test_a_copy_shows_what_it_changes(as_alice, urls, job):
    page = as_alice.get(urls["job-new"], {"copy": str(job.pk)})
    assert page.context["changes"] == [] and page.context["original"] == job
    body = sent(page.context["form"], seed="7", **{"hyperparameters.learning_rate": "0.5"})
    card = as_alice.post(urls["job-preview"], body)
    found = {change.path: (change.before, change.after) for change in card.context["changes"]}
    assert found == {"hyperparameters.learning_rate": ("0.0001", "0.5"), "seed": ("0", "7")} or found["seed"] == (
        "0",
        "7",
    )
    assert "What the copy changes" in re.sub(r"<[^>]+>", "", card.content.decode())


def test_a_job_of_another_project_is_no_original(as_alice, urls, job, project):
    other = Project.objects.create(workspace=project.workspace, name="Other", created_by=job.submitted_by)
    Job.objects.filter(pk=job.pk).update(project=other)
    form = as_alice.get(urls["job-new"]).context["form"]
    for chosen in (str(job.pk), "nonsense"):
        card = as_alice.post(urls["job-preview"], sent(form, copied_from=chosen))
        assert "original" not in card.context and job.name not in card.content.decode()
