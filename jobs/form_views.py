"""The form that makes a job, and the card beside it that says what will happen."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from catalog.previews import columns_by_hand
from jobs.data_report import prompts_of, report_summary
from jobs.estimate import estimate_job
from jobs.form_values import values_of
from jobs.forms import UNSAVED, JobForm
from jobs.models import Job
from jobs.risks import risks_of
from jobs.selectors import jobs_visible_to
from jobs.services import job_submit
from jobs.sizes import size_of
from trainers.presets import BY_KEY as PRESETS
from trainers.presets import Preset
from trainers.spec import ENVIRONMENT_SOURCE, SpecError, parse_spec
from workspaces import access
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def job_new(request: ProjectRequest, project: Project) -> HttpResponse:
    """The form; sent, it starts the job, or comes back with every error beside its field and nothing typed lost."""
    if request.method != "POST":
        return _form_page(request, JobForm(project=project, initial=_initial(request, project)))
    form = JobForm(request.POST, project=project)
    valid = form.is_valid()
    if not valid or "check" in request.POST:
        return _form_page(request, form, status=200 if valid else 422)
    assert form.task is not None
    try:
        job = job_submit(
            project=project,
            spec=form.task,
            submitted_by=request.user,
            idempotency_key=form.idempotency_key,
            reward_version=form.reward_version if form.task.reward else None,
        )
    except SpecError as error:
        form.add_spec_errors(error)
        return _form_page(request, form, status=422)
    return redirect("job", project.pk, job.pk)


@require_POST
@in_project(Role.EDITOR)
def job_preview(request: ProjectRequest, project: Project) -> HttpResponse:
    """The card "What will happen" for the form as it stands; changes nothing."""
    form = JobForm(request.POST, project=project)
    # The list of columns belongs to the dataset: it is sent along when another one was chosen.
    columns = request.POST.get("columns_of", "") != form.value("data.source")
    return render(request, "jobs/form_card.html", preview(form) | {"form": form, "swap_columns": columns})


def _form_page(request: ProjectRequest, form: JobForm, status: int = 200) -> HttpResponse:
    return render(request, "jobs/form.html", preview(form) | {"form": form, "presets": PRESETS.values()}, status=status)


def preview(form: JobForm) -> dict[str, Any]:
    """What the card shows: the check of the data, the plan and its estimate, or what is still missing."""
    checked = _checked(form)
    dataset, base = form.dataset, form.base_model
    card: dict[str, Any] = {
        "dataset": dataset,
        "report": report_summary(dataset) if dataset else None,
        "prompts": prompts_of(dataset) if dataset else [],
        "missing": _missing(checked),
        "estimate": None,
        "risks": [],
    }
    if checked.task is not None and dataset is not None and base is not None:
        estimate = estimate_job(task=checked.task, base=base, rows=dataset.usable_rows)
        card |= {"estimate": estimate, "task": checked.task}
        card["risks"] = risks_of(
            checked.task, dataset.usable_rows, dataset.report, estimate, parameters=base.parameters
        )
    return card


def _checked(form: JobForm) -> JobForm:
    """The form itself once it was sent; a first form is checked as if it were sent as it is shown."""
    if form.is_bound:
        form.is_valid()
        return form
    values = {name: form.value(name) for name in form.fields}
    # A box that is not ticked is not sent.
    sent = JobForm({name: value for name, value in values.items() if value is not False}, project=form.project)
    sent.is_valid()
    return sent


def _missing(form: JobForm) -> list[str]:
    """What the card waits for, in the order of the form."""
    found = []
    for name, errors in form.errors.items():
        label = form.fields[name].label if name in form.fields else None
        found += [str(error) if not label else f"{label}: {error}" for error in errors]
    return found


def _initial(request: ProjectRequest, project: Project) -> dict[str, Any]:
    """What the form begins with: a copied job, or what the link that led here named, or the project's newest things."""
    copied = request.GET.get("copy")
    if copied:
        job = access.get(jobs_visible_to(request.user).filter(project=project), copied, request.user)
        return _copy_of(job)
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


def _of_preset(preset: Preset) -> dict[str, Any]:
    """What the form shows for an example: its task, without a name, and on whatever data the person has."""
    task = preset.task()
    values = values_of(task)
    initial = values | {"size": size_of(values)}
    for left_to_the_form in ("name", "model.base", *(["data.source"] if "data" not in preset.spec else [])):
        del initial[left_to_the_form]
    if task.reward is not None:
        initial |= {"reward": UNSAVED, "reward_spec": task.reward.model_dump_json()}
    return initial


def _copy_of(job: Job) -> dict[str, Any]:
    try:
        task = parse_spec(job.spec)
    except SpecError:
        return {"name": f"{job.name} copy"}
    values = values_of(task)
    initial = values | {"name": f"{task.name[:195]} copy", "size": size_of(values)}
    if task.reward is not None:
        reward = task.reward.model_dump(mode="json")
        saved = job.reward_version
        if saved is not None and saved.spec == reward:
            initial["reward"] = str(saved.pk)
        else:
            initial |= {"reward": UNSAVED, "reward_spec": task.reward.model_dump_json()}
    return initial
