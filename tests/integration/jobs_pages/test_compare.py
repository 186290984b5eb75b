"""Several jobs side by side: the page, its lines, its files, and who gets to see which of them."""

from __future__ import annotations

import csv
import io
import math
import uuid
from typing import Any

import factories
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from job_rows import run_job, write_points

from jobs.compare import MOST_RUNS
from jobs.ids import read_ids
from jobs.models import Job
from jobs.run_looks import looks_of
from records.models import ChartView
from workspaces.services import project_create, workspace_create

pytestmark = pytest.mark.django_db
EVIL = "<img src=x onerror=alert(1)>"


def made(project: Any, user: Any, values: dict[str, list[float]], **parts: Any) -> Job:
    job = factories.job(project, user, **parts)
    write_points(job, run_job(job), values)
    return job


@pytest.fixture
def pair(project, alice) -> list[Job]:
    factories.node()
    slow = made(project, alice, {"train/loss": [3, 2, 2.5], "eval/accuracy": [0.1, 0.4]}, name="sums")
    fast = {"steps": 4, "learning_rate": 1e-3}
    return [slow, made(project, alice, {"train/loss": [3, 1]}, name="sums", hyperparameters=fast)]


def address(name: str, project: Any, jobs: list[Job], query: str = "") -> str:
    return f"{reverse(name, args=[project.pk])}?jobs={','.join(str(job.pk) for job in jobs)}{query}"


def test_two_jobs_of_one_name_stay_apart(as_alice, project, pair):
    answer = as_alice.get(address("compare", project, pair))
    rows = answer.context["runs"]
    assert [row["name"] for row in rows] == ["sums", "sums"]
    assert len({row["short"] for row in rows}) == 2
    assert len({(row["colour"], row["dash"]) for row in rows}) == 2
    for row in rows:
        assert row["short"] in answer.content.decode()


def test_only_fields_that_differ_are_shown_until_one_asks_for_all(as_alice, project, pair):
    answer = as_alice.get(address("compare", project, pair))
    paths = {field.path for field in answer.context["fields"]}
    assert "hyperparameters.learning_rate" in paths and "recipe" not in paths
    everything = as_alice.get(address("compare", project, pair, "&all=1")).context["fields"]
    assert "recipe" in {field.path for field in everything}


def test_the_base_run_can_be_chosen(as_alice, project, pair):
    def differing(query: str) -> list[bool]:
        fields = as_alice.get(address("compare", project, pair, query)).context["fields"]
        return next(field.differs for field in fields if field.path == "hyperparameters.learning_rate")

    assert differing("") == [False, True]
    assert differing(f"&base={pair[1].pk}") == [True, False]
    assert differing("&base=nonsense") == [False, True]


def test_the_table_has_last_and_best_by_the_metrics_own_direction(as_alice, project, pair):
    table = {metric.key: metric for metric in as_alice.get(address("compare", project, pair)).context["metrics"]}
    loss, accuracy = table["train/loss"], table["eval/accuracy"]
    assert [(cell["last"], cell["best"], cell["best_step"]) for cell in loss.cells] == [(2.5, 2.0, 2), (1.0, 1.0, 2)]
    assert loss.lower_is_better and loss.winner == 1
    assert accuracy.cells[0]["best"] == 0.4 and accuracy.cells[1] is None and accuracy.winner is None


def test_the_numeric_parameters_that_differ_make_the_parallel_axes(as_alice, project, pair):
    axes = {
        axis["path"]: axis["values"]
        for axis in as_alice.get(address("compare", project, pair)).context["live"]["parameters"]
    }
    assert axes["hyperparameters.learning_rate"][1] == 1e-3


def test_runs_that_are_gone_or_foreign_are_counted_and_nothing_else(as_alice, project, pair, mallory):
    theirs = workspace_create(name="Theirs", owner=mallory)
    hidden = factories.job(project_create(workspace=theirs, name="P", actor=mallory), mallory, name="kestrel")
    page = as_alice.get(address("compare", project, [*pair, hidden], f",{uuid.uuid4()},nonsense"))
    assert len(page.context["runs"]) == 2 and page.context["missing"] == 2
    assert "kestrel" not in page.content.decode()
    lines = as_alice.get(address("compare-lines", project, [hidden], "&key=train/loss")).json()
    assert lines == {"lines": [], "active": []}


def test_runs_of_another_project_of_the_team_can_be_compared(as_alice, project, workspace, alice, pair):
    other = project_create(workspace=workspace, name="Other maths", actor=alice)
    job = made(other, alice, {"train/loss": [1]})
    page = as_alice.get(address("compare", project, [pair[0], job]))
    assert len(page.context["runs"]) == 2 and "Other maths" in page.content.decode()


def test_nothing_to_compare_says_what_to_do(as_alice, project):
    page = as_alice.get(reverse("compare", args=[project.pk])).content.decode()
    assert "Nothing to compare" in page and reverse("jobs", args=[project.pk]) in page


def test_hostile_names_are_text(as_alice, project, alice):
    factories.node()
    jobs = [made(project, alice, {f"reward/{EVIL}": [0.0, 1.0]}, name=EVIL) for _ in range(2)]
    page = as_alice.get(address("compare", project, jobs)).content.decode()
    assert "<img src=x" not in page and "&lt;img src=x" in page


@pytest.mark.parametrize("axis", ["step", "wall", "active", "tokens", "nonsense"])
def test_lines_come_on_each_axis(as_alice, project, pair, axis):
    found = as_alice.get(address("compare-lines", project, pair, f"&key=train/loss&x={axis}")).json()
    assert [line["id"] for line in found["lines"]] == [str(job.pk) for job in pair]
    assert found["lines"][0]["y"] == [3.0, 2.0, 2.5]
    assert {"step": [1, 2, 3], "active": [0, 2, 4], "tokens": [100, 200, 300], "nonsense": [1, 2, 3]}.get(
        axis, found["lines"][0]["x"]
    ) == found["lines"][0]["x"]
    assert found["active"] == [str(job.pk) for job in pair]


def test_unchanged_lines_are_not_sent_again(as_alice, project, pair):
    url = address("compare-lines", project, pair, "&key=train/loss")
    first = as_alice.get(url)
    again = as_alice.get(url, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    write_points(pair[0], pair[0].attempts.get(), {"train/loss": [math.nan]}, first_step=4)
    fresh = as_alice.get(url, headers={"If-None-Match": first["ETag"]})
    assert fresh.json()["lines"][0]["y"][-1] is None and fresh.json()["lines"][0]["gaps"] == 1


def rows_of(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_the_points_as_csv_are_all_points_with_their_attempt(as_alice, project, pair):
    write_points(pair[0], run_job(pair[0], number=2), {"train/loss": [9.0]}, first_step=2)
    url = reverse("job-metrics", args=[project.pk, pair[0].pk])
    rows = rows_of(as_alice.get(f"{url}?key=train/loss"))
    assert [(row["attempt"], row["step"], row["value"]) for row in rows] == [
        ("1", "1", "3.0"), ("1", "2", "2.0"), ("1", "3", "2.5"), ("2", "2", "9.0"),
    ]  # fmt: skip
    assert {row["metric"] for row in rows_of(as_alice.get(url))} == {"train/loss", "eval/accuracy"}
    both = rows_of(as_alice.get(address("compare-points", project, pair)))
    assert {row["job"] for row in both} == {str(job.pk) for job in pair}


def test_the_table_as_csv_holds_every_metric(as_alice, project, pair):
    rows = rows_of(as_alice.get(address("compare-table", project, pair)))
    assert [(row["metric"], row["best"], row["best_step"]) for row in rows if row["job"] == str(pair[1].pk)] == [
        ("train/loss", "1.0", "2")
    ]


def test_a_name_is_no_formula_in_a_spreadsheet(as_alice, project, alice):
    factories.node()
    job = made(project, alice, {"=1+1": [1.0]}, name="=HYPERLINK(1)")
    (row,) = rows_of(as_alice.get(reverse("job-metrics", args=[project.pk, job.pk])))
    assert row["name"] == "'=HYPERLINK(1)" and row["metric"] == "'=1+1"


def test_the_queries_do_not_grow_with_the_runs(as_alice, project, alice, pair):
    def count(name: str, jobs: list[Job]) -> int:
        with CaptureQueriesContext(connection) as found:
            as_alice.get(address(name, project, jobs, "&key=train/loss"))
        return len(found)

    more = [*pair, *(made(project, alice, {"train/loss": [1.0] * 9, "eval/loss": [2.0]}) for _ in range(4))]
    for name in ("compare", "compare-lines"):
        assert count(name, more) == count(name, pair) <= 18


def test_the_toolbar_is_remembered_for_each_person_and_project(as_alice, client, carol, project, pair):
    keep = reverse("chart-view", args=[project.pk])
    as_alice.post(keep, {"query": "x=tokens&smooth=0.9&show=loss&evil=1"})
    as_alice.post(keep, {"query": "x=tokens&smooth=0.2"})
    assert ChartView.objects.get().query == "x=tokens&smooth=0.2"
    page = as_alice.get(reverse("job", args=[project.pk, pair[0].pk]))
    assert page.context["live"]["chart_view"] == "x=tokens&smooth=0.2"
    client.force_login(carol)
    assert client.get(address("compare", project, pair)).context["live"]["chart_view"] == ""


def test_ids_are_read_once_each_and_not_too_many():
    ids = [uuid.uuid4() for _ in range(30)]
    assert read_ids([",".join(map(str, [ids[0], *ids]))], MOST_RUNS) == ids[:MOST_RUNS]
    assert read_ids(["a, ,;"], MOST_RUNS) == []


def test_twenty_runs_look_different_and_one_keeps_its_look():
    ids = [uuid.uuid4() for _ in range(20)]
    looks = looks_of(ids)
    assert len(set(looks.values())) == 20 and looks_of(ids[::-1]) == looks
    assert looks_of(ids[:1])[ids[0]] == (f"--series-{ids[0].int % 8 + 1}", "solid")
