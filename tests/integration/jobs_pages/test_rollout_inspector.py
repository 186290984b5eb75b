"""The rollout inspector: filters, search, long and hostile texts, one prompt at two steps, and its cost."""

from __future__ import annotations

from typing import Any

import factories
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_rollouts

from records.models import Rollout
from records.rollout_pages import CUT, Filter, rollouts_found, rollouts_of_step

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(project: Any, alice: Any) -> Any:
    job = factories.job(project, alice)
    run_job(job)
    return job


@pytest.fixture
def as_carol(client: Client, carol: Any) -> Client:
    client.force_login(carol)
    return client


def at(job: Any, name: str = "job-rollouts", *args: Any) -> str:
    return reverse(name, args=[job.project_id, job.pk, *args])


def write(job: Any, **fields: Any) -> None:
    write_rollouts(job, job.attempts.get(), **fields)


def page(client: Client, job: Any, **query: str) -> Any:
    return client.get(at(job), query).context["rollouts"]


def test_samples_are_filtered_by_reward_and_by_what_came_of_them(as_carol: Client, job: Any):
    write(job, step=1)
    assert page(as_carol, job).sample_count == 8
    assert page(as_carol, job, only="right").sample_count == 4
    assert page(as_carol, job, only="wrong").sample_count == 4
    assert page(as_carol, job, only="cut").sample_count == 2
    assert page(as_carol, job, least="0.5").sample_count == 4
    assert page(as_carol, job, most="0.5", only="whole").sample_count == 3
    assert page(as_carol, job, q="what is 1 + 3").sample_count == 1
    assert page(as_carol, job, q="nowhere").groups == []
    wrong = as_carol.get(at(job), {"least": "much"})
    assert "much is not a number" in wrong.content.decode()


def test_every_step_can_be_searched(as_carol: Client, job: Any):
    for step in (1, 2, 3):
        write(job, step=step, groups=1, size=2, completion=f"at step {step} 100% _ok_")
    found = page(as_carol, job, q="100% _ok_", **{"in": "all"})
    assert found.everywhere and [group.first["step"] for group in found.groups] == [3, 2, 1]
    # The signs that a pattern of the database would have are only signs.
    assert page(as_carol, job, q="100_ok", **{"in": "all"}).groups == []
    assert page(as_carol, job, **{"in": "all"}).everywhere is False


def test_a_long_text_is_cut_and_given_whole_when_asked_for(as_carol: Client, job: Any):
    long = "<b>" + "x" * 1_000_000
    write(job, step=1, groups=1, size=1, completion=long)
    answer = as_carol.get(at(job))
    assert len(answer.content) < 3 * CUT + 20_000 and "Show all" in answer.content.decode()
    row = Rollout.objects.get()
    whole = as_carol.get(at(job, "job-rollout-text", row.pk)).content.decode()
    assert whole.startswith("&lt;b&gt;") and whole.count("x") >= 1_000_000
    assert as_carol.get(at(job, "job-rollout-text", row.pk + 99)).status_code == 404


def test_a_sample_of_another_job_is_not_given(as_carol: Client, job: Any, project: Any, alice: Any):
    other = factories.job(project, alice)
    run_job(other)
    write(other, step=1, groups=1, size=1)
    assert as_carol.get(at(job, "job-rollout-text", Rollout.objects.get().pk)).status_code == 404


def test_hostile_text_neither_acts_nor_hides(as_carol: Client, job: Any):
    hostile = "<script>alert(1)</script>\x1b[31m\u202egpj"
    write(job, step=1, groups=1, completion=hostile, prompt=hostile, answer=hostile, parts={hostile: 1.0})
    write(job, step=2, groups=1, completion=f"{hostile} more", prompt=hostile)
    for address in (at(job), at(job) + "?at=1/train", at(job, "job-rollout-diff") + "?prompt=key+0"):
        text = as_carol.get(address).content.decode()
        assert "<script>alert" not in text and "\x1b" not in text and "\u202e" not in text
        assert "␛[31m[U+202E]gpj" in text


def test_one_prompt_is_compared_between_two_steps(as_carol: Client, job: Any):
    for step, text in ((1, "It is ten."), (5, "It is eleven."), (9, "It is 11.")):
        write(job, step=step, groups=1, size=2, phase="eval", completion=text)
    diff = at(job, "job-rollout-diff")
    first = as_carol.get(diff, {"prompt": "key 0"}).content.decode()
    assert "<del>ten</del><ins>11</ins>" in first
    chosen = as_carol.get(diff, {"prompt": "key 0", "a": "5/eval", "b": "9/eval", "i": "1"}).content.decode()
    assert "<del>eleven</del><ins>11</ins>" in chosen
    assert as_carol.get(diff, {"prompt": "another"}).status_code == 404
    assert as_carol.get(diff).status_code == 404


def test_the_address_keeps_filters_from_page_to_page(as_carol: Client, job: Any):
    write(job, step=1, groups=25, size=2)
    found = page(as_carol, job, at="1/train", sort="worst", q="What is", least="-1")
    assert found.pages == 3 and found.keep == "sort=worst&q=What+is&least=-1"
    assert "q=What+is" in as_carol.get(at(job), {"at": "1/train", "q": "What is"}).content.decode()


def test_a_hundred_thousand_rollouts_cost_as_many_queries_as_ten(as_carol: Client, job: Any):
    write(job, step=1)
    with CaptureQueriesContext(connection) as few:
        as_carol.get(at(job), {"at": "1/train", "q": "it is"})
    subject = {"subject_kind": "job", "subject_id": job.pk}
    Rollout.objects.bulk_create(
        [
            Rollout(
                **subject, attempt=1, seq=10**6 + n, step=2 + n // 100, phase="train", group=n % 100 // 4, index=n % 4,
                prompt="p", prompt_key="k", completion="c", reward=0.0, at=timezone.now(),
            )
            for n in range(20_000)
        ],
        batch_size=5000,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE records_rollout")
    with CaptureQueriesContext(connection) as many:
        as_carol.get(at(job), {"at": "100/train", "q": "c"})
    assert len(many) == len(few)
    assert len(rollouts_of_step(("job", job.pk), 100, "train", Filter())) == 100
    plan = Rollout.objects.filter(**subject, step=100, phase="train", attempt=1).explain()
    assert "rollout_by_step" in plan
    assert len(rollouts_found(("job", job.pk), Filter(text="c", most=0.5))) == 100
