"""The form offers examples, and each becomes a job."""

from __future__ import annotations

import re

import factories
import pytest
from django.urls import reverse

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
