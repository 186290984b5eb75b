"""A report by link: for some days, for that report alone, until it is revoked."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import factories
import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from trainers.storage import Storage
from workspaces.models import AuditEvent, SharedLink, Workspace
from workspaces.sharing import shared_link_key

pytestmark = pytest.mark.django_db
STRANGER = Client()


@pytest.fixture
def job(project: Any, alice: Any) -> Job:
    job = factories.job(project, alice, name="sums")
    key = f"reports/{job.pk}/1.html"
    Storage(django_settings.STORAGE_URL).put_bytes(key, b"<h1>the report</h1>")
    Job.objects.filter(pk=job.pk).update(report_key=key, state="succeeded")
    job.refresh_from_db()
    return job


def share(client: Client, job: Job, days: str = "7") -> str:
    return client.post(reverse("job-share", args=[job.project_id, job.pk]), {"days": days}).content.decode()


def path_in(page: str) -> str:
    found = re.search(r"http://[^/]+(/shared/[^\"]+)", page)
    assert found
    return found[1]


@pytest.fixture
def as_bob(client: Client, bob: Any) -> Client:
    client.force_login(bob)
    return client


def test_whoever_has_the_link_sees_the_report_and_it_is_not_indexed(as_bob: Client, job: Job):
    answer = STRANGER.get(path_in(share(as_bob, job)))
    assert answer.status_code == 200 and b"the report" in answer.content
    assert "noindex" in answer["X-Robots-Tag"] and answer["Referrer-Policy"] == "no-referrer"
    policy = answer["Content-Security-Policy"]
    assert policy.startswith("sandbox") and "default-src 'none'" in policy and "allow-same-origin" not in policy
    assert "no-store" in answer["Cache-Control"] and not answer.cookies
    assert AuditEvent.objects.filter(action="link.create").count() == 1


def test_a_revoked_link_shows_nothing(as_bob: Client, job: Job):
    path = path_in(share(as_bob, job))
    link = SharedLink.objects.get()
    page = as_bob.post(reverse("job-unshare", args=[job.project_id, job.pk, link.pk])).content.decode()
    assert "/shared/" not in page
    assert STRANGER.get(path).status_code == 410
    assert AuditEvent.objects.filter(action="link.revoke").count() == 1


def test_an_expired_a_forged_and_a_foreign_link_show_nothing(as_bob: Client, job: Job, workspace: Any):
    path = path_in(share(as_bob, job))
    link = SharedLink.objects.get()
    assert STRANGER.get(path[:-3] + "xx/").status_code == 410
    assert STRANGER.get(f"/shared/{link.pk.hex}/").status_code == 410
    assert STRANGER.get(f"/shared/{link.pk.hex}:sig/").status_code == 410
    SharedLink.objects.update(kind="other")
    assert STRANGER.get(path).status_code == 410
    SharedLink.objects.update(kind="job-report", expires_at=timezone.now() - timedelta(seconds=1))
    assert STRANGER.get(path).status_code == 410
    SharedLink.objects.update(expires_at=timezone.now() + timedelta(days=1))
    assert STRANGER.get(path).status_code == 200
    Workspace.objects.filter(pk=workspace.pk).update(closed_at=timezone.now())
    assert STRANGER.get(path).status_code == 410


def test_links_are_made_for_a_bounded_time_by_editors(as_bob: Client, carol: Any, job: Job):
    for days in ("0", "91", "x", "-1", "9" * 30):
        assert "1 to 90 days" in share(as_bob, job, days)
    assert not SharedLink.objects.exists()
    as_bob.force_login(carol)
    assert as_bob.post(reverse("job-share", args=[job.project_id, job.pk]), {"days": "7"}).status_code == 403


def test_a_link_of_another_job_is_not_revoked_from_here(as_bob: Client, job: Job, project: Any, alice: Any):
    share(as_bob, job)
    link = SharedLink.objects.get()
    other = factories.job(project, alice)
    assert as_bob.post(reverse("job-unshare", args=[project.pk, other.pk, link.pk])).status_code == 404
    assert STRANGER.get(reverse("report-shared", args=[shared_link_key(link)])).status_code == 200


def test_a_job_without_a_report_has_nothing_to_share(as_bob: Client, project: Any, alice: Any):
    other = factories.job(project, alice)
    assert as_bob.post(reverse("job-share", args=[project.pk, other.pk]), {"days": "7"}).status_code == 404
