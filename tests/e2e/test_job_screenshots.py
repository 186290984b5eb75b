"""The pages of jobs in both colours, wide and on a phone, with much, little and nothing to show.

Nothing may overflow or complain in the console. With SCREENSHOTS=folder the pictures are kept there to be looked at.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import factories
import pytest
import scenes
from django.urls import reverse
from django.utils import timezone
from job_rows import run_job, write_log, write_points, write_rollouts
from job_site import curves, job_tabs, serving, settle

from compute.models import Request
from jobs.models import Job
from jobs.states import State
from workspaces.models import User

pytestmark = [pytest.mark.browser, pytest.mark.full, pytest.mark.django_db(transaction=True)]
FOLDER = os.environ.get("SCREENSHOTS", "")
LOOKS = [(theme, size) for theme in ("light", "dark") for size in (scenes.WIDE, scenes.PHONE)]
HOSTILE = scenes.NASTY_NAMES[0]


@pytest.fixture(params=LOOKS, ids=lambda look: f"{look[0]}-{look[1][0]}")
def look(request: pytest.FixtureRequest, visit: Any, alice: Any) -> Any:
    theme, size = request.param
    User.objects.filter(pk=alice.pk).update(theme=theme)

    def shoot(pages: dict[str, str], *, before: Any = None) -> None:
        with serving() as url:
            window = visit(alice, theme=theme, size=size, url=url)
            wide = []
            for name, path in pages.items():
                page = window.open(path)
                if page.locator("#live-badge").count():
                    settle(page)
                    page.wait_for_timeout(150)
                if before:
                    before(page, name)
                if FOLDER:
                    Path(FOLDER).mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=f"{FOLDER}/{name}-{theme}-{size[0]}.png", full_page=True)
                if window.overflow() > 0:
                    wide.append(f"{name} is {window.overflow()} px wider than the window")
            assert wide == []
            # A refused form is an answer with that status, and on purpose.
            assert [problem for problem in window.problems if "status of 422" not in problem] == []

    return shoot


def address(name: str, job: Job) -> str:
    return reverse(name, args=[job.project_id, job.pk])


def test_nothing_yet(look: Any, project: Any):
    look({"nothing-jobs": reverse("jobs", args=[project.pk]), "nothing-form": reverse("job-new", args=[project.pk])})


def test_a_running_job(look: Any, alice: Any, project: Any):
    factories.node()
    factories.base_model()
    version = scenes.upload(project, alice, "Sums", scenes.sums_rows(200))
    job = factories.job(project, alice, name="sums-grpo")
    Job.objects.filter(pk=job.pk).update(dataset_version=version)
    attempt = run_job(job, steps=200)
    write_points(job, attempt, curves(84), start=timezone.now() - timedelta(seconds=3 * 84))
    write_log(job, attempt, [f"step {n}: reward {n / 84:.3f}" for n in range(60)])
    write_rollouts(job, attempt, step=84, groups=3, size=8)
    Job.objects.filter(pk=job.pk).update(fraction=0.42, eta_s=380, phase="training")
    look({f"running-{tab}": f"{address('job', job)}?tab={tab}" for tab in job_tabs()})


def test_every_other_state(look: Any, alice: Any, project: Any):
    factories.node()
    now = timezone.now()
    pages = {}
    for state in State:
        job = factories.job(project, alice, name=f"{state}-job")
        fields: dict[str, Any] = {"state": state}
        if state == State.QUEUED:
            Request.objects.filter(holder_id=job.pk).update(
                why="Needs 4 reserved GPUs, 2 free now; position 3.", position=3
            )
        elif state in (State.SUCCEEDED, State.FAILED):
            attempt = run_job(job)
            write_points(job, attempt, {key: values[:30] for key, values in curves(60).items()})
            write_log(
                job, attempt, ["loading the model", "step 30", "ValueError: the loss is not finite"], level="error"
            )
            fields |= {"started_at": now - timedelta(minutes=11), "ended_at": now, "step": 30, "total_steps": 30}
        if state == State.SUCCEEDED:
            fields |= {
                "result": scenes.RESULT | {"eval_prompts": 64, "train_seconds": 612.0},
                "report_key": "reports/x.html",
            }
            job.model_version = scenes.model_of(job)
            job.save()
        if state == State.FAILED:
            fields |= {
                "reason": "The loss became NaN at step 31.",
                "advice": "Lower the learning rate (it was 2e-4), or turn on gradient clipping, then start it again.",
            }
        Job.objects.filter(pk=job.pk).update(**fields)
        pages[f"state-{state}"] = address("job", job)
    look(pages)


def test_the_form(look: Any, alice: Any, project: Any):
    factories.node()
    factories.base_model()
    scenes.fill_rewards(project, alice, scenes.NASTY_NAMES)
    version = scenes.upload(project, alice, "Sums", scenes.sums_rows(200))
    nasty = scenes.upload(project, alice, scenes.NASTY_NAMES[1], scenes.nasty_rows(), "问题.jsonl")
    new = reverse("job-new", args=[project.pk])
    reward = project.rewards.get(name="Right sum").versions.get()

    def open_folds(page: Any, name: str) -> None:
        if name == "form-advanced":
            page.evaluate("document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })")
        if name == "form-errors":
            page.fill("[name='data.max_bad_rows']", "-3")
            page.fill("[name=name]", HOSTILE)
            page.get_by_role("button", name="Start training").click()
            page.wait_for_selector(".error")

    look(
        {
            "form": f"{new}?dataset={version.pk}&reward={reward.pk}",
            "form-nasty": f"{new}?dataset={nasty.pk}",
            "form-advanced": f"{new}?dataset={version.pk}&reward={reward.pk}",
            "form-errors": f"{new}?dataset={nasty.pk}",
        },
        before=open_folds,
    )


def test_much_and_nasty_names(look: Any, alice: Any, project: Any):
    factories.node()
    jobs = scenes.fill_jobs(project, alice, scenes.NASTY_NAMES)
    for job in jobs:
        if job.state == State.SUCCEEDED:
            attempt = run_job(job)
            write_points(job, attempt, curves(40))
            Job.objects.filter(pk=job.pk).update(state=State.SUCCEEDED)
    long = next(job for job in jobs if job.state == State.RUNNING and job.name.startswith("a" * 20))
    attempt = run_job(long)
    write_points(long, attempt, curves(40) | {f"reward/{name[:60]}": [0.5] * 40 for name in scenes.NASTY_NAMES})
    write_log(long, attempt, [*scenes.NASTY_NAMES, "\x1b[31mred\x1b[0m", " 10%\r 50%\r100%", "x" * 3000])
    texts = {
        "prompt": scenes.NASTY_NAMES[2],
        "completion": scenes.NASTY_NAMES[0] + "\n" + "长" * 400,
        "parts": {HOSTILE: 1},
    }
    write_rollouts(long, attempt, step=40, groups=2, size=4, **texts)
    second = run_job(long, number=2)
    write_points(long, second, curves(20), first_step=30)
    look(
        {
            "much-jobs": reverse("jobs", args=[project.pk]),
            "much-jobs-failed": reverse("jobs", args=[project.pk]) + "?state=failed",
        }
        | {f"much-{tab}": f"{address('job', long)}?tab={tab}" for tab in job_tabs()}
        | {"much-cancel": address("job-cancel", long)}
    )
