"""Home: where `/` leads, what a project's home tells, and how a newcomer is led on."""

from __future__ import annotations

import json
from typing import Any

import factories
import pytest
from django.test import Client
from django.urls import reverse

from catalog.services import reward_save
from compute.models import Request
from jobs.models import Job
from jobs.states import State
from workspaces.models import Membership, Project, User
from workspaces.services import project_create

pytestmark = pytest.mark.django_db


def test_it_leads_to_the_project_of_last_time(client: Client, alice: Any, workspace: Any, project: Any):
    other = project_create(workspace=workspace, name="Another", actor=alice)
    client.force_login(alice)
    assert client.get("/")["Location"] == reverse("project-home", args=[other.pk]), "the first by name"
    client.get(reverse("project-home", args=[project.pk]))
    assert client.get("/")["Location"] == reverse("project-home", args=[project.pk])


def test_a_foreign_project_in_the_cookie_leads_nowhere(client: Client, alice: Any, project: Any, mallory: Any):
    foreign = Project.objects.get(name="Elsewhere")
    client.force_login(alice)
    client.cookies["tuneyard_project"] = str(foreign.pk)
    assert client.get("/")["Location"] == reverse("project-home", args=[project.pk])
    client.cookies["tuneyard_project"] = "nonsense"
    assert client.get("/")["Location"] == reverse("project-home", args=[project.pk])


def test_a_person_with_nothing_has_a_home_that_says_what_to_do(client: Client, alice: Any, workspace: Any):
    client.force_login(alice)
    assert "Create a project" in client.get("/").content.decode()
    Membership.objects.all().delete()
    assert "not in a workspace yet" in client.get("/").content.decode()


def test_a_newcomer_is_led_from_data_to_reward_to_job(client: Client, bob: Any, project: Any):
    url = reverse("project-home", args=[project.pk])
    client.force_login(bob)
    assert reverse("dataset-upload", args=[project.pk]) in client.get(url).content.decode()
    factories.dataset_version(project)
    page = client.get(url).content.decode()
    assert reverse("dataset-upload", args=[project.pk]) not in page
    assert reverse("reward-new", args=[project.pk]) in page
    reward_save(project=project, name="Right", spec={"components": [{"kind": "numeric"}]}, actor=bob)
    assert reverse("job-new", args=[project.pk]) in client.get(url).content.decode()


def test_a_viewer_is_offered_nothing_they_may_not_do(client: Client, carol: Any, project: Any):
    client.force_login(carol)
    page = client.get(reverse("project-home", args=[project.pk])).content.decode()
    for name in ("dataset-upload", "reward-new", "job-new"):
        assert reverse(name, args=[project.pk]) not in page


def test_it_tells_what_runs_waits_failed_and_ended(client: Client, alice: Any, project: Any):
    jobs = {state: factories.job(project, alice, name=f"job {state.value}") for state in State}
    for state, job in jobs.items():
        Job.objects.filter(pk=job.pk).update(state=state)
    Job.objects.filter(pk=jobs[State.RUNNING].pk).update(fraction=0.42, eta_s=380)
    Job.objects.filter(pk=jobs[State.FAILED].pk).update(
        reason="The loss became NaN.", advice="Lower the learning rate."
    )
    result = {"before": {"accuracy": 0.25}, "after": {"accuracy": 0.97}}
    Job.objects.filter(pk=jobs[State.SUCCEEDED].pk).update(result=result)
    Request.objects.filter(holder_id=jobs[State.QUEUED].pk).update(why="Needs 2 CPU cores, 1 is free.", position=3)
    client.force_login(alice)
    page = client.get(reverse("project-home", args=[project.pk])).content.decode()
    for job in jobs.values():
        assert reverse("job", args=[project.pk, job.pk]) in page
    assert "Needs 2 CPU cores, 1 is free. Position 3 in the queue." in page
    assert "The loss became NaN. Lower the learning rate." in page
    assert "about" in page
    assert "6m 20s" in page
    assert "25.0 %" in page
    assert "97.0 %" in page


def test_results_that_are_no_numbers_do_not_break_the_page(client: Client, alice: Any, project: Any):
    for result in (
        {"before": None, "after": {"accuracy": "NaN"}},
        {"before": {"loss": 2.0}, "after": {"loss": 1.0}},
        {},
    ):
        job = factories.job(project, alice)
        Job.objects.filter(pk=job.pk).update(state=State.SUCCEEDED, result=json.loads(json.dumps(result)))
    client.force_login(alice)
    assert client.get(reverse("project-home", args=[project.pk])).status_code == 200


def test_many_jobs_take_as_many_queries_as_one(
    client: Client, alice: Any, project: Any, django_assert_max_num_queries: Any
):
    for number in range(15):
        job = factories.job(project, alice)
        state = list(State)[number % len(State)]
        Job.objects.filter(pk=job.pk).update(state=state)
    client.force_login(alice)
    with django_assert_max_num_queries(18):
        client.get(reverse("project-home", args=[project.pk]))


def test_another_projects_jobs_are_not_here(client: Client, alice: Any, project: Any, workspace: Any):
    other = project_create(workspace=workspace, name="Another", actor=alice)
    factories.job(other, alice, name="secret of another")
    factories.job(project, alice, name="ours")
    client.force_login(alice)
    page = client.get(reverse("project-home", args=[project.pk])).content.decode()
    assert "ours" in page
    assert "secret of another" not in page


def test_a_disabled_person_is_out_at_once(client: Client, alice: Any, project: Any):
    client.force_login(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert client.get(reverse("project-home", args=[project.pk])).status_code == 302
