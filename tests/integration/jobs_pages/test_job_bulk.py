"""Actions on several jobs, tags and saved views of the list."""

from __future__ import annotations

import uuid

import factories
import pytest
from django.urls import reverse
from job_rows import run_job, write_log, write_points

from catalog.models import Checkpoint
from jobs.bulk import MOST
from jobs.ids import read_ids
from jobs.models import Job
from records.models import LogLine, SavedView, Series, Tag
from workspaces.models import AuditEvent
from workspaces.services import project_create, workspace_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs(project, alice):
    factories.node()
    return [factories.job(project, alice, name=f"job {number}") for number in range(3)]


@pytest.fixture
def bulk(as_alice, project):
    def do(action, jobs, **fields):
        address = reverse("jobs-bulk", args=[project.pk])
        return as_alice.post(address, {"do": action, "jobs": [job.pk for job in jobs]} | fields, follow=True)

    return do


def test_the_question_names_exactly_the_jobs_and_their_number(as_alice, project, jobs):
    Job.objects.filter(pk=jobs[1].pk).update(state="failed")
    query = f"do=cancel&jobs={jobs[0].pk},{jobs[1].pk},{uuid.uuid4()}"
    page = as_alice.get(f"{reverse('jobs-bulk', args=[project.pk])}?{query}").content.decode()
    assert "Cancel 1 job</button>" in page
    assert "job 0" in page and "job 1" in page and "job 2" not in page
    assert "It has ended already." in page and "1 more is no longer there" in page
    assert Job.objects.filter(state="cancelled").count() == 0


def test_only_the_named_jobs_are_cancelled(bulk, jobs):
    page = bulk("cancel", jobs[:2]).content.decode()
    assert "Cancelled: 2 jobs." in page
    assert [Job.objects.get(pk=job.pk).state for job in jobs] == ["cancelled", "cancelled", "queued"]


def test_jobs_of_others_and_of_other_projects_are_not_touched(bulk, alice, mallory, workspace, jobs):
    theirs = project_create(workspace=workspace_create(name="T", owner=mallory), name="P", actor=mallory)
    foreign = factories.job(theirs, mallory)
    other = factories.job(project_create(workspace=workspace, name="Other", actor=alice), alice)
    page = bulk("cancel", [jobs[0], foreign, other]).content.decode()
    assert "Cancelled: 1 job." in page and "2 that are no longer there" in page
    assert {Job.objects.get(pk=job.pk).state for job in (foreign, other)} == {"queued"}


def test_deleting_takes_everything_of_the_job_and_only_of_ended_ones(bulk, project, jobs, settings, tmp_path):
    settings.STORAGE_URL = f"file://{tmp_path}"
    ended, running = jobs[:2]
    for job in (ended, running):
        attempt = run_job(job)
        write_points(job, attempt, {"train/loss": [1.0]})
        write_log(job, attempt, ["a line"])
    Job.objects.filter(pk=ended.pk).update(state="failed")
    ended.attempts.update(ended_at=ended.created_at)
    Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=ended.pk, epoch=1, step=1, name="1", uri="c/1", format="peft"
    )  # fmt: skip
    page = bulk("delete", [ended, running]).content.decode()
    assert "Deleted: 1 job." in page and "cancel it first" in page
    assert not Job.objects.filter(pk=ended.pk).exists() and Job.objects.filter(pk=running.pk).exists()
    for model in (Series, LogLine):
        assert set(model.objects.values_list("subject_id", flat=True)) == {running.pk}
    assert not Checkpoint.objects.exists()
    assert AuditEvent.objects.filter(action="job.delete").count() == 1


def test_a_viewer_does_none_of_it(client, carol, project, jobs):
    client.force_login(carol)
    answer = client.post(reverse("jobs-bulk", args=[project.pk]), {"do": "cancel", "jobs": jobs[0].pk})
    assert answer.status_code == 403
    assert "data-compare" in client.get(reverse("jobs", args=[project.pk])).content.decode()


@pytest.mark.parametrize("fields", [{}, {"do": "explode"}, {"do": "cancel", "jobs": "x"}])
def test_nonsense_is_answered_with_what_to_do(as_alice, project, jobs, fields):
    page = as_alice.post(reverse("jobs-bulk", args=[project.pk]), fields, follow=True).content.decode()
    assert "Tick at least one job" in page


def test_tags_are_added_filtered_by_and_taken_off(bulk, as_alice, project, jobs):
    bulk("tag", jobs[:2], tag="  baseline   <b> ")
    bulk("tag", jobs[:1], tag="baseline <b>")
    assert Tag.objects.count() == 2
    listing = as_alice.get(reverse("jobs", args=[project.pk]), {"tag": "baseline <b>"})
    assert sorted(line.job.name for line in listing.context["listing"].lines) == ["job 0", "job 1"]
    assert "<b>" not in listing.content.decode().replace("<bdi>", "")
    bulk("untag", jobs[:1], tag="baseline <b>")
    assert list(Tag.objects.values_list("subject_id", flat=True)) == [jobs[1].pk]


@pytest.mark.parametrize(("tag", "why"), [(" ", "Give the tag a name."), ("x" * 41, "at most 40 characters")])
def test_a_bad_tag_is_refused(bulk, jobs, tag, why):
    assert why in bulk("tag", jobs, tag=tag).content.decode()
    assert not Tag.objects.exists()


def test_a_saved_view_is_its_owners_until_it_is_shared(as_alice, client, carol, project, jobs):
    save = reverse("jobs-view-save", args=[project.pk])
    as_alice.post(save, {"name": "Failed", "query": "state=failed&page=3"})
    as_alice.post(save, {"name": "All <i>", "query": "q=sums", "shared": "on"})
    assert dict(SavedView.objects.values_list("name", "query")) == {"Failed": "state=failed", "All <i>": "q=sums"}
    mine = SavedView.objects.get(name="Failed")
    client.force_login(carol)
    page = client.get(reverse("jobs", args=[project.pk])).content.decode()
    assert "All &lt;i&gt;" in page and ">Failed</a>" not in page
    delete = reverse("jobs-view-delete", args=[project.pk, mine.pk])
    assert client.post(delete).status_code == 404
    client.post(save, {"name": "Hers", "query": "", "shared": "on"})
    assert not SavedView.objects.get(name="Hers").shared, "a viewer shares nothing"


def test_a_view_is_deleted_and_replaced_by_name(as_alice, project, jobs):
    save = reverse("jobs-view-save", args=[project.pk])
    for query in ("state=failed", "state=running"):
        as_alice.post(save, {"name": "Mine", "query": query})
    view = SavedView.objects.get()
    assert view.query == "state=running"
    as_alice.post(reverse("jobs-view-delete", args=[project.pk, view.pk]))
    assert not SavedView.objects.exists()
    assert "Give the view a name." in as_alice.post(save, {"name": " "}, follow=True).content.decode()


def test_ids_come_in_either_form_and_once():
    ids = [uuid.uuid4() for _ in range(3)]
    assert read_ids([f"{ids[0]},{ids[1]}", str(ids[2]), str(ids[0]), "x"], MOST) == ids
