"""Search: everything one may see, nothing else, in a fixed number of bounded queries."""

from __future__ import annotations

import factories
import pytest
from django.urls import reverse
from django.utils.html import escape

from catalog.models import Dataset
from jobs.models import Job
from workspaces.models import Project
from workspaces.services import project_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(client, alice, project):
    client.force_login(alice)
    factories.job(project, alice, name="kestrel sums")

    def ask(text, **more):
        return client.get(reverse("search"), {"q": text, **more})

    return ask


def titles(answer):
    return [hit.title for hit in answer.context["hits"]]


def test_every_word_must_be_in_the_name_in_any_order_and_case(ask):
    assert titles(ask("KESTREL")) == titles(ask("sums kes")) == ["kestrel sums"]
    assert titles(ask("kestrel other")) == []


def test_what_another_team_has_is_not_found(ask, project, mallory):
    Job.objects.update(project=Project.objects.get(name="Elsewhere"))
    answer = ask("kestrel")
    assert titles(answer) == [] and "Nothing you can see" in answer.content.decode()


def test_the_project_one_is_in_comes_first_and_its_pages_are_there(ask, workspace, project, alice):
    other = project_create(workspace=workspace, name="Another", actor=alice)
    Dataset.objects.create(project=other, name="kestrel data")
    Dataset.objects.create(project=project, name="old kestrel data")
    found = [hit.where for hit in ask("kestrel data", **{"in": str(project.pk)}).context["hits"]]
    assert found == [project.name, "Another"]
    assert "New job" in titles(ask("", **{"in": str(project.pk)}))
    assert "New job" not in titles(ask("", **{"in": "nonsense"}))


@pytest.mark.parametrize("text", ["%", "_", "'; drop table", "\\", "<script>alert(1)</script>", "a " * 400, "‮"])
def test_hostile_texts_are_only_texts(ask, text):
    answer = ask(text)
    assert answer.status_code == 200
    assert "<script>" not in answer.content.decode()


def test_hostile_names_are_shown_as_they_are(ask):
    Job.objects.update(name="<b>kestrel</b>")
    assert escape("<b>kestrel</b>") in ask("kestrel").content.decode()


def test_the_number_of_queries_does_not_grow(ask, django_assert_max_num_queries, project, alice):
    for number in range(9):
        factories.job(project, alice, name=f"kestrel {number}")
    with django_assert_max_num_queries(16):
        assert len(titles(ask("kestrel"))) == 6


def test_home_tells_what_was_spent_and_what_is_free(ask, client, project):
    factories.node(devices=6)
    page = " ".join(client.get(reverse("project-home", args=[project.pk])).content.decode().split())
    assert "Spent this month" in page and "Waiting in the queue" in page
    assert "<dd>6 <small>of 6</small>" in page
