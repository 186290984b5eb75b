"""The job form as text: the task in YAML, put back into the form, and what does the same from elsewhere."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_POST

from jobs.form_initial import initial_of_task
from jobs.form_values import raw_spec
from jobs.form_views import checked, form_page, preview
from jobs.forms import JobForm
from jobs.spec_fields import spec_field, spec_fields
from jobs.spec_reading import TextError, TextRefused, read_task
from jobs.spec_writing import yaml_lines, yaml_of
from jobs.sweep_form import SweepForm
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project

KEPT = ("key", "copied_from")


@require_POST
@in_project(Role.EDITOR)
def job_text(request: ProjectRequest, project: Project) -> HttpResponse:
    """The form as it stands, as YAML; changes nothing."""
    form = checked(JobForm(request.POST, project=project))
    return render(request, "jobs/form_text.html", text_context(request, form))


@require_POST
@in_project(Role.EDITOR)
def job_text_file(request: ProjectRequest, project: Project) -> HttpResponse:
    """The text as a file: as it was typed, or as JSON."""
    text, wanted = _text(request), request.POST.get("as", "yaml")
    name = "task.yaml"
    if wanted == "json":
        try:
            task = read_task(text)
        except TextRefused as refused:
            said = "\n".join(str(error) for error in refused.errors)
            return HttpResponse(said, status=422, content_type="text/plain; charset=utf-8")
        text, name = json.dumps(task.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n", "task.json"
    kind = "application/json" if wanted == "json" else "application/yaml; charset=utf-8"
    disposition = content_disposition_header(True, name) or ""
    return HttpResponse(text, content_type=kind, headers={"Content-Disposition": disposition})


@require_POST
@in_project(Role.EDITOR)
def job_text_apply(request: ProjectRequest, project: Project) -> HttpResponse:
    """Put a text into the form; what is wrong with it is said by line and path, and the form stays as it is."""
    partial = bool(request.headers.get("HX-Request"))
    kept = {name: request.POST[name] for name in KEPT if request.POST.get(name)}
    try:
        task = read_task(_text(request))
    except TextRefused as refused:
        if partial:
            page = render(request, "jobs/form_text_errors.html", {"errors": refused.errors})
            page["HX-Retarget"], page["HX-Reswap"] = "#text-errors", "innerHTML"
            return page
        form = JobForm(project=project, initial=kept)
        shown = text_context(request, form) | {"text": _text(request), "text_errors": refused.errors}
        return form_page(request, form, status=422, **shown)
    form = JobForm(project=project, initial=initial_of_task(task, *JobForm(project=project).rewards) | kept)
    if not partial:
        return form_page(request, form)
    page = render(request, "jobs/form_body.html", preview(form) | {"form": form, "sweep": SweepForm()})
    page["HX-Trigger-After-Settle"] = "tuneyard:applied"
    return page


def text_context(request: ProjectRequest, form: JobForm) -> dict[str, Any]:
    """The YAML of a form that was checked, and what does the same from Python, a terminal or another program."""
    if form.task is not None:
        text, errors = yaml_of(form.task), []
    else:
        values = {field.path: form.value(field.path) for field in spec_fields()}
        raw = raw_spec({path: value for path, value in values.items() if value != ""}, _reward_of(form))
        text = "\n".join([*yaml_lines(_typed(raw))]) + "\n"
        errors = [
            TextError(None, name if name in form.fields else "", str(message))
            for name, messages in (form.errors if form.is_bound else {}).items()
            for message in messages
        ]
    return {
        "text": text,
        "text_errors": errors,
        "kept_key": form.value("key"),
        "kept_copy": form.value("copied_from"),
        "project_id": str(request.project.pk),
        "api": request.build_absolute_uri(reverse("home")).rstrip("/") + "/api/v1/jobs",
    }


def _reward_of(form: JobForm) -> Any:
    try:
        return form.reward_json()
    except ValueError:
        return None


def _typed(raw: Any, path: str = "") -> Any:
    """The texts of a form's number fields as numbers, where they are some."""
    if isinstance(raw, dict):
        return {name: _typed(value, f"{path}.{name}" if path else name) for name, value in raw.items()}
    field = spec_field(path)
    if field is None or field.control not in ("integer", "number") or not isinstance(raw, str):
        return raw
    try:
        return int(raw) if field.control == "integer" else float(raw)
    except ValueError:
        return raw


def _text(request: ProjectRequest) -> str:
    return request.POST.get("text", "").replace("\r\n", "\n")
