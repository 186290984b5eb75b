"""Sweeps: a family of jobs with one budget, from the form to the best of them."""

from __future__ import annotations

from decimal import Decimal

import factories
import pytest
from django.urls import reverse
from django.utils.html import escape
from job_rows import run_job, write_points

from jobs.forms import JobForm
from jobs.models import Job, Sweep
from jobs.sweep_form import read_fields
from jobs.sweeps import members_of, sweep_advance, sweep_cancel, sweep_submit, sweeps_unfinished
from trainers.spec import SpecError

pytestmark = pytest.mark.django_db
RATES = {"hyperparameters.learning_rate": {"values": [1e-5, 1e-4, 1e-3]}}


@pytest.fixture
def described(project, base, version):
    factories.node()
    return {"task": factories.spec(version), "method": "grid", "fields": RATES}


def ended(job, value):
    attempt = run_job(job)
    write_points(job, attempt, {"eval/reward": [0.0, value]})
    Job.objects.filter(pk=job.pk).update(state="succeeded")


def test_one_budget_bounds_all_and_the_same_key_is_the_same_sweep(project, alice, described):
    described["budget"] = {"amount": "0.10"}
    for _ in range(2):
        row = sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    jobs = list(Job.objects.filter(sweep_member__sweep=row))
    assert len(jobs) == Job.objects.count() == 3
    assert sum(Decimal(job.spec["budget"]["amount"]) for job in jobs) <= Decimal("0.10")
    assert len({job.name for job in jobs}) == 3


def test_a_member_that_cannot_run_makes_none_run(project, alice, described):
    described["fields"] = {"sampling.group_size": {"values": [4, 1]}}
    with pytest.raises(SpecError):
        sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    assert not Job.objects.exists() and not Sweep.objects.exists()


def test_halving_lets_the_best_go_on_and_tells_the_others_why(project, alice, described):
    described |= {"method": "halving", "members": 4, "eta": 2, "first_steps": 5}
    described["fields"] = {"hyperparameters.learning_rate": {"minimum": 1e-5, "maximum": 1e-3, "log": True}}
    row = sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    first = [member.job for member in row.members.select_related("job")]
    assert not sweeps_unfinished() and not sweep_advance(row.pk), "nothing goes on while a job runs"
    for job, value in zip(first, (0.1, 0.9, float("nan"), 0.5), strict=True):
        ended(job, value)
    assert sweeps_unfinished() == [row.pk]
    assert sweep_advance(row.pk) and not sweep_advance(row.pk)
    second = [member.job for member in row.members.filter(rung=1).select_related("job")]
    assert [job.name for job in second] == [first[1].name, first[3].name]
    assert {job.spec["hyperparameters"]["steps"] for job in second} == {10}
    assert "Not among the best 2 of 4" in first[0].timeline.last().reason
    for job, value in zip(second, (0.2, 0.3), strict=True):
        ended(job, value)
    sweep_advance(row.pk)
    row.refresh_from_db()
    ended(row.members.get(rung=2).job, 0.4)
    assert not sweep_advance(row.pk) and not sweeps_unfinished()
    assert next(member for member in members_of(row) if member.best).rung == 2


def test_a_rung_of_failures_says_so_and_ends(project, alice, described):
    described |= {"method": "halving", "members": 3, "eta": 2}
    row = sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    Job.objects.update(state="failed")
    assert not sweep_advance(row.pk)
    row.refresh_from_db()
    assert "none goes on" in row.problem and not sweeps_unfinished()


def test_cancelling_stops_each_and_starts_no_more(project, alice, described):
    described |= {"method": "halving", "members": 3, "eta": 2}
    row = sweep_submit(project=project, spec=described, submitted_by=alice, idempotency_key="k")
    for _ in range(2):
        sweep_cancel(sweep=row, actor=alice)
    assert set(Job.objects.values_list("state", "reason")) == {("cancelled", "Its sweep was cancelled.")}
    assert not sweep_advance(row.pk)


def sent(project, **changes):
    form = JobForm(project=project)
    values = {name: form.value(name) for name in form.fields}
    values |= {"data.source": form.datasets[0].source, "reward": str(form.rewards[0].pk)} | changes
    values |= {"sweep-method": "grid", "sweep-fields_text": "seed: 1, 2", "model.base": "tiny-random-llama"} | changes
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


def test_the_form_starts_a_family_and_its_page_shows_it(as_alice, project, base, version, reward):
    factories.node()
    address = reverse("sweep-new", args=[project.pk])
    body = sent(project, name="<b>family</b>")
    answer = as_alice.post(address, body)
    assert answer.status_code == 302
    assert as_alice.post(address, body).url == answer.url, "twice pressed is one sweep"
    assert Job.objects.count() == 2 and set(Job.objects.values_list("reward_version", flat=True)) == {reward.pk}
    ended(Job.objects.first(), 0.75)
    page = as_alice.get(answer.url).content.decode()
    assert escape("<b>family</b>") in page and "<b>family" not in page
    assert "Best so far" in page and "0.75" in page and "1 has not ended" in page
    partial = as_alice.get(answer.url, headers={"HX-Request": "true", "HX-Target": "sweep-members"}).content.decode()
    assert partial.lstrip().startswith('<div id="sweep-members"')
    assert as_alice.get(reverse("sweeps", args=[project.pk])).status_code == 200
    assert as_alice.get(reverse("job", args=[project.pk, Job.objects.first().pk])).status_code == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed", "line 1"),
        ("data.source: a, b", "in common"),
        ("no.such: 1, 2", "no such field"),
        ("seed: 1 .. 5", "a grid needs values"),
        ("seed: [", "line 1"),
        ("", "required"),
    ],
)
def test_what_is_wrong_with_the_values_stands_beside_them(as_alice, project, base, version, reward, text, words):
    answer = as_alice.post(reverse("sweep-new", args=[project.pk]), sent(project, **{"sweep-fields_text": text}))
    assert answer.status_code == 422
    assert words in str(answer.context["sweep"].errors["fields_text"])
    assert not Job.objects.exists()


def test_values_and_ranges_are_read_by_line():
    lines = (
        "hyperparameters.learning_rate: 1e-5 .. 1e-3 log",
        "",
        "model.adapter.rank: 4 .. 64 whole",
        "loss.name: ppo, gspo",
    )
    assert read_fields("\n".join(lines)) == {
        "hyperparameters.learning_rate": {"minimum": "1e-5", "maximum": "1e-3", "log": True, "whole": False},
        "model.adapter.rank": {"minimum": "4", "maximum": "64", "log": False, "whole": True},
        "loss.name": {"values": ["ppo", "gspo"]},
    }
