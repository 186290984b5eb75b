"""What the job form begins with: a copied job, an example, a task written as text, or the project's newest things."""

from __future__ import annotations

from typing import Any

from catalog.models import RewardVersion
from catalog.previews import columns_by_hand
from catalog.services import RewardRefused, reward_check
from jobs.form_values import values_of
from jobs.forms import UNSAVED, JobForm
from jobs.models import Job
from jobs.selectors import jobs_visible_to
from jobs.sizes import size_of
from jobs.suggestions import changes_of_link
from trainers.presets import BY_KEY as PRESETS
from trainers.presets import Preset
from trainers.spec import ENVIRONMENT_SOURCE, SpecError, TaskSpec, parse_spec
from workspaces import access
from workspaces.models import Project
from workspaces.scope import ProjectRequest


def initial_of(request: ProjectRequest, project: Project) -> dict[str, Any]:
    """From the address that led here: ``?copy=JOB`` (with changes: :mod:`jobs.suggestions`), ``?preset=KEY``,
    ``?dataset=ID``, ``?reward=ID``."""
    copied = request.GET.get("copy")
    if copied:
        job = access.get(jobs_visible_to(request.user).filter(project=project), copied, request.user)
        return copy_of(job) | changes_of_link(request.GET, job)
    preset = PRESETS.get(request.GET.get("preset", ""))
    form = JobForm(project=project)
    initial: dict[str, Any] = _of_preset(preset) if preset else {}
    datasets, rewards = form.datasets, form.rewards
    wanted = request.GET.get("dataset", "")
    chosen = next((row for row in datasets if str(row.pk) == wanted), datasets[0] if len(datasets) == 1 else None)
    if chosen is not None and initial.get("data.source") != ENVIRONMENT_SOURCE:
        initial["data.source"] = chosen.source
        initial |= {f"data.columns.{part}": name for part, name in columns_by_hand(chosen).items()}
    wanted = request.GET.get("reward", "")
    reward = next((row for row in rewards if str(row.pk) == wanted), rewards[0] if len(rewards) == 1 else None)
    if reward is not None and not (preset and "reward" in initial):
        initial["reward"] = str(reward.pk)
    return initial


def copy_of(job: Job) -> dict[str, Any]:
    """The form of a job's task, remembering which job that was."""
    try:
        task = parse_spec(job.spec)
    except SpecError:
        return {"name": f"{job.name} copy"}
    return initial_of_task(task, job.reward_version) | {
        "name": f"{task.name[:195]} copy",
        "copied_from": str(job.pk),
    }


def initial_of_task(task: TaskSpec, *rewards: RewardVersion | None) -> dict[str, Any]:
    """A whole task; its reward is shown as one of the saved ``rewards`` if it is equal to that."""
    values = values_of(task)
    initial = values | {"size": size_of(values)}
    if task.reward is not None:
        reward = task.reward.model_dump(mode="json")
        saved = next((row for row in rewards if row is not None and _whole(row) == reward), None)
        if saved is not None:
            initial["reward"] = str(saved.pk)
        else:
            initial |= {"reward": UNSAVED, "reward_spec": task.reward.model_dump_json()}
    return initial


def _whole(row: RewardVersion) -> Any:
    """A saved reward with the defaults of what it leaves out; None for one that is none any more."""
    try:
        return reward_check(row.spec).model_dump(mode="json")
    except RewardRefused:
        return None


def _of_preset(preset: Preset) -> dict[str, Any]:
    """What the form shows for an example: its task, without a name, and on whatever data the person has."""
    initial = initial_of_task(preset.task())
    for left_to_the_form in ("name", "model.base", *(["data.source"] if "data" not in preset.spec else [])):
        del initial[left_to_the_form]
    return initial
