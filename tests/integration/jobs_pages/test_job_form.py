"""The job form: every error stands beside its field, nothing typed is lost, one click is one job."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta

import factories
import pytest
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job

from catalog.services import dataset_upload
from compute.models import Request
from jobs.forms import JobForm
from jobs.models import Job
from jobs.spec_fields import spec_fields
from trainers.spec import RECIPES, Columns, parse_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def address(project, base, version, reward):
    factories.node()
    return reverse("job-new", args=[project.pk])


def sent(project, **changes):
    """What a browser sends for the form as it is first shown, with some fields changed."""
    form = JobForm(project=project)
    values = {name: form.value(name) for name in form.fields}
    values |= {
        "data.source": form.datasets[0].source,
        "reward": str(form.rewards[0].pk),
        "model.base": "tiny-random-llama",
        "columns_of": "",
    }
    values |= changes
    return {name: "on" if value is True else value for name, value in values.items() if value is not False}


def test_the_form_shows_every_field_once(as_alice, address):
    page = as_alice.get(address).content.decode()
    for field in spec_fields():
        count = len(re.findall(rf'name="{re.escape(field.path)}"', page))
        assert count == (len(RECIPES) if field.path == "recipe" else 1), field.path


def test_it_starts_a_job_and_leads_to_its_page(as_alice, address, project, reward):
    answer = as_alice.post(address, sent(project, name="first try"))
    job = Job.objects.get()
    assert answer.status_code == 302 and answer.url == reverse("job", args=[project.pk, job.pk])
    assert job.name == "first try"
    assert job.reward_version == reward
    assert job.spec["hyperparameters"]["steps"] == 20, "the small size"


def test_a_name_left_empty_is_taken_from_the_dataset(as_alice, address, project, version):
    as_alice.post(address, sent(project))
    assert Job.objects.get().name == f"{version.dataset.name}-grpo"


def test_a_double_click_makes_one_job(as_alice, address, project):
    body = sent(project)
    first, second = as_alice.post(address, body), as_alice.post(address, body)
    assert first.url == second.url
    assert Job.objects.count() == 1


def test_the_same_page_with_other_values_makes_another_job(as_alice, address, project):
    body = sent(project)
    as_alice.post(address, body)
    as_alice.post(address, body | {"seed": "7"})
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"model.adapter.rank": "0"}, "model.adapter.rank", "whole number, 1 – 512"),
        ({"model.adapter.rank": "many"}, "model.adapter.rank", "whole number"),
        ({"hyperparameters.learning_rate": "fast"}, "hyperparameters.learning_rate", "a number, above 0 – 1"),
        ({"loss.name": "hinge"}, "loss.name", "one of cross_entropy, importance_sampling"),
        ({"resources.tier": "free"}, "resources.tier", "one of reserved"),
        ({"data.source": ""}, "data.source", "Choose a dataset."),
        ({"data.source": "dataset:00000000-0000-0000-0000-000000000000@1"}, "data.source", "no such dataset"),
        ({"reward": ""}, "reward", "Choose a reward"),
        ({"reward": "0"}, "reward", "no such reward"),
        ({"recipe": ""}, "recipe", "Choose a recipe"),
        ({"recipe": "magic"}, "recipe", "one of sft, grpo"),
        ({"model.base": "gpt-17"}, "model.base", "there are: tiny-random-llama"),
        ({"data.limit": "0"}, "data.limit", "1 or more"),
        ({"budget.amount": "-1"}, "budget.amount", "above 0"),
        ({"name": "x" * 201}, "name", "200 characters"),
        ({"hyperparameters.warmup_steps": "20"}, "hyperparameters.warmup_steps", "leaves nothing of 20 steps"),
        ({"model.adapter.attention": False, "model.adapter.mlp": False}, "model.adapter.kind", "at least one of"),
        ({"sampling.group_size": "1", "size": "custom"}, "sampling.group_size", "at least 2 completions"),
    ],
)
def test_an_error_stands_beside_its_field(as_alice, address, project, changes, field, words):
    answer = as_alice.post(address, sent(project, **changes))
    assert answer.status_code == 422
    assert not Job.objects.exists()
    page = answer.content.decode()
    beside = re.search(rf'<div class="error" id="f-{re.escape(field)}-error">(.*?)</div>', page, re.S)
    assert beside, f"no error beside {field}"
    assert words.lower() in beside[1].lower()


def test_every_bound_of_every_number_is_refused_beside_its_field(as_alice, address, project):
    wrong = {
        field.path: "-1e30" if field.control == "number" else "-999999"
        for field in spec_fields()
        if field.control in ("number", "integer") and field.minimum and "grpo" in field.recipes
    }
    page = as_alice.post(address, sent(project, size="custom", **wrong)).content.decode()
    missing = [path for path in wrong if f'id="f-{path}-error"' not in page]
    assert not missing
    assert len(wrong) > 20


def test_nothing_typed_is_lost_on_an_error(as_alice, address, project):
    hostile = '"><script>alert(1)</script>'
    changes = {
        "name": hostile,
        "data.system_prompt": "保持简短。\n</textarea><b>",
        "hyperparameters.learning_rate": "1e-5x",
        "loss.kl_coefficient": "0.02",
        "evaluation.greedy": False,
        "hyperparameters.schedule": "cosine",
        "size": "custom",
        "hyperparameters.steps": "33",
    }
    answer = as_alice.post(address, sent(project, **changes))
    form = answer.context["form"]
    assert {name: form.value(name) for name in changes} == changes | {"name": hostile}
    page = answer.content.decode()
    assert "<script>alert" not in page and "</textarea><b>" not in page
    assert 'value="1e-5x"' in page and 'value="33"' in page


def test_the_size_dial_sets_its_four_fields(as_alice, address, project):
    as_alice.post(address, sent(project, size="medium", **{"hyperparameters.steps": "7"}))
    spec = Job.objects.get().spec
    assert (spec["hyperparameters"]["steps"], spec["sampling"]["max_new_tokens"]) == (100, 128)


def test_own_numbers_are_kept_when_the_dial_is_off(as_alice, address, project):
    body = sent(project, size="custom", **{"hyperparameters.steps": "7"})
    as_alice.post(address, body)
    assert Job.objects.get().spec["hyperparameters"]["steps"] == 7


def test_imitating_needs_no_reward(as_alice, address, project):
    answer = as_alice.post(address, sent(project, recipe="sft", reward=""))
    assert answer.status_code == 302
    job = Job.objects.get()
    assert job.spec["loss"]["name"] == "cross_entropy" and job.reward_version is None


def test_a_copy_is_the_same_task(as_alice, address, project, reward, alice):
    spec = {
        "hyperparameters": {"steps": 3, "learning_rate": 0.000123456789012345},
        "evaluation": {"greedy": False, "prompts": 5},
        "reward": reward.spec,
        "budget": {"amount": "1.25"},
        "seed": 42,
    }
    job = factories.job(project, alice, **spec)
    job.spec["data"]["columns"]["prompt"] = "question"
    job.save()
    page = as_alice.get(f"{address}?copy={job.pk}")
    form = page.context["form"]
    body = {name: form.value(name) for name in form.fields}
    body = {name: "on" if value is True else value for name, value in body.items() if value is not False}
    assert as_alice.post(address, body).status_code == 302
    copied = Job.objects.exclude(pk=job.pk).get()
    assert copied.spec | {"name": ""} == job.spec | {"name": ""}
    assert copied.name == "sums copy"


def test_a_copied_reward_that_was_never_saved_is_kept(as_alice, address, project, alice):
    job = factories.job(project, alice, reward={"components": [{"kind": "length", "maximum": 9}]})
    form = as_alice.get(f"{address}?copy={job.pk}").context["form"]
    assert form.value("reward") == "unsaved"
    assert json.loads(form.value("reward_spec"))["components"][0]["maximum"] == 9


def test_a_job_of_another_project_cannot_be_copied(as_alice, address, mallory):
    foreign = factories.job(mallory.workspaces.get().projects.get(), mallory)
    assert as_alice.get(f"{address}?copy={foreign.pk}").status_code == 404


def test_the_check_without_scripts_starts_nothing(as_alice, address, project):
    answer = as_alice.post(address, sent(project, check="1"))
    assert answer.status_code == 200
    assert not Job.objects.exists()
    assert "20 steps." in answer.content.decode()


def test_a_viewer_sees_no_form(client, carol, address):
    client.force_login(carol)
    assert client.get(address).status_code == 403
    assert client.post(address, {}).status_code == 403


def test_a_stranger_does_not_find_it(client, mallory, address):
    client.force_login(mallory)
    assert client.get(address).status_code == 404
    assert client.post(address, {}).status_code == 404


class TestCard:
    @pytest.fixture
    def card(self, as_alice, address, project):
        def ask(**changes):
            return as_alice.post(reverse("job-preview", args=[project.pk]), sent(project, **changes)).content.decode()

        return ask

    def test_it_says_what_it_waits_for(self, card):
        text = card(**{"data.source": ""}, reward="")
        assert "Waiting for" in text and "Choose a dataset." in text and "Choose a reward" in text

    def test_it_tells_the_plan_in_words(self, card):
        text = " ".join(card().split())
        assert "20 steps. In each the model answers 8 prompts 8 times, in at most 32 tokens" in text
        assert "93 of 100 rows can be used" in text
        assert "2 CPU cores, reserved" in text

    def test_it_admits_that_it_knows_nothing_yet(self, card):
        assert "Reckoned from the size of the model" in " ".join(card().split())

    def test_it_learns_from_finished_jobs(self, card, project, alice):
        job = factories.job(
            project, alice, hyperparameters={"steps": 20, "batch_size": 8}, sampling={"max_new_tokens": 32}
        )
        run_job(job)
        now = timezone.now()
        Job.objects.filter(pk=job.pk).update(state="succeeded", started_at=now - timedelta(minutes=10), ended_at=now)
        Request.objects.filter(holder_id=job.pk).update(devices=2)
        text = " ".join(card().split())
        assert "Learned from 1 finished job" in text
        minutes = re.search(r"<strong>([\d.]+) – ([\d.]+) (min|h)</strong>", text)
        assert minutes, "a range, not a point"
        # The known job took ten minutes for about the same work.
        assert float(minutes[1]) <= 10 <= float(minutes[2])

    def test_it_warns_of_risky_choices(self, card):
        text = card(**{"hyperparameters.learning_rate": "0.01", "evaluation.prompts": "0"})
        assert "may break the model" in text
        assert "Evaluation is off" in text

    def test_it_changes_nothing(self, card):
        card()
        assert not Job.objects.exists()

    def test_columns_come_along_only_when_the_dataset_changed(self, card, version):
        assert 'hx-swap-oob="true"' in card(columns_of="")
        assert 'hx-swap-oob="true"' not in card(columns_of=version.source)


def test_the_spec_of_the_form_is_what_is_stored(as_alice, address, project):
    as_alice.post(address, sent(project))
    stored = Job.objects.get().spec
    assert parse_spec(stored).model_dump(mode="json") == stored


class TestData:
    """What the check of the file has found is asked about before the job starts, not after."""

    @pytest.fixture
    def uploaded(self, project, alice, tmp_path, settings):
        """A file with other column names, Chinese text and bad rows, uploaded as the page does it."""
        settings.STORAGE_URL = f"file://{tmp_path}"
        rows = [
            json.dumps({"题目": f"{n} 加 {n} 等于多少？", "答案": str(2 * n)}, ensure_ascii=False) for n in range(30)
        ]
        rows[4] = '{"题目": "坏'
        rows[9] = '{"题目": ""}'
        return dataset_upload(
            project=project,
            name="算术",
            file=io.BytesIO("\n".join(rows).encode()),
            file_name="算术.jsonl",
            actor=alice,
            columns=Columns(prompt="题目", answer="答案"),
        )

    def test_bad_rows_are_told_by_line_and_must_be_accepted(self, as_alice, address, project, uploaded):
        body = sent(project, **{"data.source": uploaded.source})
        answer = as_alice.post(address, body)
        assert answer.status_code == 422
        page = answer.content.decode()
        assert "2 of 30 rows cannot be used. Write 2 here to leave them out" in page
        assert "Line 5:" in page and "Line 10:" in page
        assert as_alice.post(address, body | {"data.max_bad_rows": "2"}).status_code == 302

    def test_columns_chosen_at_the_upload_are_the_jobs_own(self, as_alice, address, project, uploaded):
        as_alice.post(address, sent(project, **{"data.source": uploaded.source, "data.max_bad_rows": "2"}))
        assert Job.objects.get().spec["data"]["columns"] == {
            **Columns().model_dump(), "prompt": "题目", "answer": "答案",
        }  # fmt: skip

    def test_the_card_shows_the_first_prompts(self, as_alice, address, project, uploaded):
        body = sent(project, **{"data.source": uploaded.source})
        page = as_alice.post(reverse("job-preview", args=[project.pk]), body).content.decode()
        assert "0 加 0 等于多少？" in page

    def test_nothing_to_imitate_is_said_beside_the_dataset(self, as_alice, address, project, version):
        version.report = {"with_answer": 0, "columns": [], "problems": []}
        version.usable_rows = version.rows
        version.save()
        page = as_alice.post(address, sent(project, recipe="sft")).content.decode()
        assert "No row of this dataset has an answer to imitate" in page

    def test_a_reward_without_answers_to_compare_with_is_a_risk(self, as_alice, address, project, version):
        version.report = {"with_answer": 0, "columns": [], "problems": []}
        version.usable_rows = version.rows
        version.save()
        page = as_alice.post(reverse("job-preview", args=[project.pk]), sent(project)).content.decode()
        assert "every completion would get the same" in page
