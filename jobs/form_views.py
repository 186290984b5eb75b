"""The form that makes a job, and the card beside it that says what will happen."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from jobs.data_report import prompts_of, report_summary
from jobs.estimate import estimate_job
from jobs.example_data import example_dataset
from jobs.form_initial import initial_of
from jobs.forms import JobForm
from jobs.models import Job
from jobs.preflight import dry_run, memory_fit, too_long
from jobs.risks import risks_of
from jobs.services import job_submit
from jobs.spec_diff import Change, changes_between
from jobs.sweep_form import SweepForm
from trainers.examples import BY_KEY as EXAMPLES
from trainers.presets import BY_KEY as PRESETS
from trainers.spec import SpecError, parse_spec
from trainers.storage import StorageError
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def job_new(request: ProjectRequest, project: Project) -> HttpResponse:
    """The form; sent, it starts the job, or comes back with every error beside its field and nothing typed lost."""
    if request.method != "POST":
        return form_page(request, JobForm(project=project, initial=initial_of(request, project)))
    form = JobForm(request.POST, project=project)
    valid = form.is_valid()
    if not valid or "check" in request.POST:
        return form_page(request, form, status=200 if valid else 422)
    assert form.task is not None
    try:
        job = job_submit(
            project=project,
            spec=form.task,
            submitted_by=request.user,
            idempotency_key=form.idempotency_key,
            reward_version=form.reward_version if form.task.reward else None,
            copied_from=form.original,
        )
    except SpecError as error:
        form.add_spec_errors(error)
        return form_page(request, form, status=422)
    return redirect("job", project.pk, job.pk)


@require_POST
@in_project(Role.EDITOR)
def job_preview(request: ProjectRequest, project: Project) -> HttpResponse:
    """The card "What will happen" for the form as it stands; changes nothing."""
    form = JobForm(request.POST, project=project)
    # The list of columns belongs to the dataset: it is sent along when another one was chosen.
    columns = request.POST.get("columns_of", "") != form.value("data.source")
    return render(request, "jobs/form_card.html", preview(form) | {"form": form, "swap_columns": columns})


@require_POST
@in_project(Role.EDITOR)
def job_dry_run(request: ProjectRequest, project: Project) -> HttpResponse:
    """The reward of a few rows, before anything is paid for; asked for by a button, as a sandbox may take seconds."""
    form = checked(JobForm(request.POST, project=project))
    context: dict[str, Any] = {}
    if form.dataset is None:
        context["problem"] = _("Choose a dataset first: its first rows are scored.")
    elif form.task is None:
        context["problem"] = _("The task is not complete yet; the card above says what is missing.")
    else:
        context["outcome"] = dry_run(form.task, form.dataset, project.workspace)
        if context["outcome"] is None:
            context["problem"] = _("This task has no reward.")
    return render(request, "jobs/form_dry_run.html", context)


@require_POST
@in_project(Role.EDITOR)
def job_example(request: ProjectRequest, project: Project) -> HttpResponse:
    """Put the data of an example into the project, and open the form with both."""
    preset = PRESETS.get(request.POST.get("preset", ""))
    if preset is None or not preset.example:
        messages.error(request, _("There is no data for this example; choose another."))
        return redirect("job-new", project.pk)
    address = f"{reverse('job-new', args=[project.pk])}?preset={preset.key}"
    try:
        version = example_dataset(project=project, preset=preset, actor=request.user)
    except (Refused, StorageError) as error:
        messages.error(request, error.message)
        return redirect(address)
    return redirect(f"{address}&dataset={version.pk}")


def form_page(request: ProjectRequest, form: JobForm, status: int = 200, **more: Any) -> HttpResponse:
    """The whole page; ``more`` is what the side of the text shows."""
    shown = {
        "form": form,
        "presets": [(preset, EXAMPLES.get(preset.example)) for preset in PRESETS.values() if preset.example],
        "algorithms": [preset for preset in PRESETS.values() if not preset.example],
        "chosen_preset": request.GET.get("preset", ""),
        "sweep": SweepForm(),
        "open_presets": not request.GET and request.method == "GET" and not form.datasets,
    }
    context = preview(form) | shown | more
    return render(request, "jobs/form.html", context, status=status)


def preview(form: JobForm) -> dict[str, Any]:
    """What the card shows: the check of the data, the plan and its estimate, or what is still missing."""
    sent = checked(form)
    dataset, base = form.dataset, form.base_model
    card: dict[str, Any] = {
        "dataset": dataset,
        "report": report_summary(dataset) if dataset else None,
        "prompts": prompts_of(dataset) if dataset else [],
        "missing": _missing(sent),
        "estimate": None,
        "risks": [],
    }
    if form.original is not None:
        card |= {"original": form.original, "changes": _changes(form.original, sent)}
    if sent.task is not None and dataset is not None and base is not None:
        estimate = estimate_job(task=sent.task, base=base, rows=dataset.usable_rows)
        card |= {"estimate": estimate, "task": sent.task}
        card["fit"] = memory_fit(sent.task, base, dataset, estimate)
        long = too_long(sent.task, dataset.report)
        risks = risks_of(sent.task, dataset.usable_rows, dataset.report, estimate, parameters=base.parameters)
        card["risks"] = [long, *risks] if long else risks
    return card


def _changes(original: Job, form: JobForm) -> list[Change] | None:
    """What the form changes in the job it began with; None while one of the two is no task."""
    try:
        return changes_between(parse_spec(original.spec), form.task) if form.task is not None else None
    except SpecError:
        return None


def checked(form: JobForm) -> JobForm:
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
