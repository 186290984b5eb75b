"""The list of jobs: what it shows, how it is filtered, and that its queries do not grow with what jobs have done."""

from __future__ import annotations

import factories
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from job_rows import run_job, write_points

from jobs.listing import PAGE_SIZE, spark
from jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(project):
    return reverse("jobs", args=[project.pk])


def names(answer) -> list[str]:
    return [line.job.name for line in answer.context["listing"].lines]


def test_an_empty_list_says_what_to_do_next(as_alice, address, project):
    page = as_alice.get(address).content.decode()
    assert "No jobs yet" in page
    assert reverse("job-new", args=[project.pk]) in page


def test_a_viewer_is_not_offered_what_they_may_not_do(client, carol, address, project):
    client.force_login(carol)
    assert reverse("job-new", args=[project.pk]) not in client.get(address).content.decode()


def test_a_row_shows_state_metric_progress_and_cost(as_alice, address, job):
    write_points(job, run_job(job), {"train/reward": [0.1, 0.4], "eval/accuracy": [0.25, 0.75]})
    page = as_alice.get(address).content.decode()
    assert "Running" in page
    assert "75.0 %" in page, "held-out accuracy is the headline"
    assert "<polyline" in page
    assert 'aria-valuenow="50"' in page


def test_jobs_of_the_same_name_stay_apart(as_alice, address, project, alice):
    factories.node()
    first, second = factories.job(project, alice), factories.job(project, alice)
    write_points(first, run_job(first), {"train/reward": [0.5]})
    lines = as_alice.get(address).context["listing"].lines
    assert {line.job.pk: line.value for line in lines} == {first.pk: 0.5, second.pk: None}


def test_the_newest_comes_first_and_pages_are_cut(as_alice, address, project, alice):
    factories.node()
    for number in range(PAGE_SIZE + 1):
        factories.job(project, alice, name=f"job {number}")
    first, second = as_alice.get(address), as_alice.get(f"{address}?page=2")
    assert names(first)[0] == f"job {PAGE_SIZE}" and len(names(first)) == PAGE_SIZE
    assert names(second) == ["job 0"]
    assert as_alice.get(f"{address}?page=nonsense").status_code == 200
    assert "page=2" in first.content.decode()


def test_filters_and_search_live_in_the_address(as_alice, address, project, alice):
    factories.node()
    for name, state in (("sums", "failed"), ("sums again", "queued"), ("poems", "failed")):
        job = factories.job(project, alice, name=name)
        Job.objects.filter(pk=job.pk).update(state=state)
    assert names(as_alice.get(f"{address}?state=failed&q=SUMS")) == ["sums"]
    assert sorted(names(as_alice.get(f"{address}?state=waiting"))) == ["sums again"]
    assert len(names(as_alice.get(f"{address}?state=nonsense"))) == 3
    page = as_alice.get(f"{address}?state=failed&q=nothing").content.decode()
    assert "No job matches" in page
    chips = {chip.key: chip.count for chip in as_alice.get(address).context["listing"].chips}
    assert (chips[""], chips["failed"], chips["waiting"]) == (3, 2, 1)


def test_a_hostile_name_is_text(as_alice, address, project, alice):
    factories.node()
    factories.job(project, alice, name="<img src=x onerror=alert(1)>\u202egnp")
    page = as_alice.get(address).content.decode()
    assert "<img src=x" not in page and "&lt;img src=x" in page
    assert "<script>alert" not in as_alice.get(f"{address}?q=%3Cscript%3Ealert(1)%3C/script%3E").content.decode()


def test_it_refreshes_itself_only_while_something_is_active(as_alice, address, job):
    assert 'hx-trigger="every 5s"' in as_alice.get(address).content.decode()
    Job.objects.update(state="succeeded")
    assert 'hx-trigger="every 5s"' not in as_alice.get(address).content.decode()


def test_the_refresh_is_the_table_alone(as_alice, address, job):
    answer = as_alice.get(address, headers={"HX-Request": "true", "HX-Target": "job-table"})
    assert "<html" not in answer.content.decode()
    assert job.name in answer.content.decode()


def test_the_queries_do_not_grow_with_jobs_or_points(as_alice, address, project, alice):
    factories.node()

    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            as_alice.get(address)
        return len(found)

    def fill(jobs: int, steps: int) -> None:
        for _ in range(jobs):
            job = factories.job(project, alice)
            write_points(job, run_job(job), {"train/reward": [0.5] * steps, "eval/accuracy": [0.5] * steps})

    fill(1, 3)
    few = count()
    fill(8, 60)
    assert count() == few
    assert few <= 20


def test_foreign_jobs_are_not_there(client, mallory, address, job):
    client.force_login(mallory)
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [0.0, 1.0, 0.5], [1e300, -1e300]])
def test_a_sparkline_stays_in_its_box(values):
    for point in spark(values).split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= 80 and 0 <= y <= 20
