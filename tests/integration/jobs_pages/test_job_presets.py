"""The form offers examples, and each becomes a job."""

from __future__ import annotations

import re

import factories
import pytest
from django.urls import reverse

from catalog.models import DatasetVersion
from jobs.models import Job
from trainers.presets import PRESETS
from trainers.spec import ENVIRONMENT_SOURCE

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(project, base, version, reward):
    factories.node()
    return reverse("job-new", args=[project.pk])


def sent_as_shown(form):
    values = {name: form.value(name) for name in form.fields}
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
def test_an_example_fills_the_form_and_becomes_its_task(as_alice, address, version, preset):
    page = as_alice.get(address, {"preset": preset.key})
    body = sent_as_shown(page.context["form"])
    own = preset.spec.get("data", {}).get("source") == ENVIRONMENT_SOURCE
    assert body["data.source"] == (ENVIRONMENT_SOURCE if own else version.source)
    if preset.spec["recipe"] in ("dpo", "distill"):
        return  # this dataset has no pairs, and this installation no such teacher
    answer = as_alice.post(address, body | {"model.base": "tiny-random-llama"})
    assert answer.status_code == 302, answer.context["form"].errors
    spec, wanted = Job.objects.get().spec, preset.task().model_dump(mode="json")
    for section in ("recipe", "environment", "loss", "reward", "sampling", "hyperparameters", "critic", "selection"):
        assert spec[section] == wanted[section], section


def test_every_example_is_offered(as_alice, address):
    page = as_alice.get(address).content.decode()
    assert all(f'href="?preset={preset.key}"' in page for preset in PRESETS)


def test_an_unknown_example_changes_nothing(as_alice, address):
    assert as_alice.get(address, {"preset": "nothing"}).context["form"].value("recipe") == "grpo"


def test_it_warns_by_the_size_of_the_model_and_the_length_of_answers(as_alice, address, version, project):
    version.report = {"lengths": {"answer": {"p95": 4000}}, "with_answer": 10}
    version.save()
    form = as_alice.get(address, {"preset": "grpo-answers"}).context["form"]
    body = sent_as_shown(form) | {
        "model.base": "tiny-random-llama",
        "hyperparameters.learning_rate": "0.01",
        "sampling.group_size": "2",
        "size": "custom",
    }
    text = " ".join(as_alice.post(reverse("job-preview", args=[project.pk]), body).content.decode().split())
    assert "0.0005 is a common start" in text
    assert "many groups will be all right or all wrong" in text
    assert "about 1,000 tokens or more" in text


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("sft", "the answers of the dataset become likelier"),
        ("dapo", "learns from how its own answers compare"),
        ("ppo-critic", "learns from how its own answers compare"),
        ("best-of-n", "and imitates the best"),
        ("evaluate", "Nothing is trained. Measured 1 times"),
    ],
)
def test_the_card_says_what_each_recipe_does(as_alice, address, project, version, key, words):
    version.report = {"with_answer": 10}
    version.save()
    body = sent_as_shown(as_alice.get(address, {"preset": key}).context["form"]) | {"model.base": "tiny-random-llama"}
    text = as_alice.post(reverse("job-preview", args=[project.pk]), body).content.decode()
    assert words in " ".join(re.sub(r"<[^>]+>", "", text).split())


@pytest.mark.parametrize("key", ["mathematics", "preferences"])
def test_without_data_an_example_brings_its_own_and_becomes_a_job(as_alice, project, base, key):
    factories.node()
    address = reverse("job-new", args=[project.pk])
    first = as_alice.get(address)
    assert first.context["open_presets"] and first.content.decode().count("Use example data") >= 6
    for _ in range(2):
        answer = as_alice.post(reverse("job-example", args=[project.pk]), {"preset": key})
    assert DatasetVersion.objects.filter(dataset__project=project).count() == 1, "asked for twice, made once"
    page = as_alice.get(answer.url)
    assert not page.context["missing"], page.context["missing"]
    started = as_alice.post(address, sent_as_shown(page.context["form"]))
    job = Job.objects.get()
    assert started.url == reverse("job", args=[project.pk, job.pk])
    assert job.spec["data"]["source"] == DatasetVersion.objects.get().source


def test_an_example_without_data_of_its_own_says_so(as_alice, address, project):
    answer = as_alice.post(reverse("job-example", args=[project.pk]), {"preset": "dapo"}, follow=True)
    assert "There is no data for this example" in answer.content.decode()


def test_a_model_cannot_be_its_own_teacher(as_alice, address, version):
    form = as_alice.get(address, {"preset": "distillation"}).context["form"]
    body = sent_as_shown(form) | {"model.base": "tiny-random-llama", "distillation.teacher": "tiny-random-llama"}
    answer = as_alice.post(address, body)
    assert answer.status_code == 422
    assert "the same model" in answer.context["form"].errors["distillation.teacher"][0]
