"""Changes of the model registry from its pages: aliases, descriptions, notes, deletion."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from catalog import registry, selectors
from catalog.aliases import alias_move, alias_remove
from catalog.models import ModelVersion, TrainedModel
from workspaces import access
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


def model_of(request: ProjectRequest, model_id: UUID) -> TrainedModel:
    """The project's model with this id. Raises ``Http404`` for any other."""
    rows = selectors.models_visible_to(request.user).filter(project=request.project)
    return access.get(rows, model_id, request.user)


def version_of(request: ProjectRequest, model_id: UUID, number: int) -> ModelVersion:
    """The version of the project's model with this number. Raises ``Http404`` for any other."""
    rows = selectors.model_versions_visible_to(request.user).filter(model__project=request.project, model_id=model_id)
    found = rows.filter(number=number).first()
    if found is None:
        raise Http404
    return found


@require_POST
@in_project(Role.EDITOR)
def model_alias(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    """Point an alias to a version; ``expected`` is where it stood when the page was drawn."""
    model = model_of(request, model_id)
    number, expected = _number(request.POST.get("version", "")), request.POST.get("expected", "")
    try:
        alias_move(
            model=model,
            name=request.POST.get("name", ""),
            number=number,
            expected=_number(expected) if expected else None,
            actor=request.user,
        )
    except Refused as error:
        messages.error(request, error.message)
    return _back(model, number)


@require_POST
@in_project(Role.EDITOR)
def model_unalias(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    model = model_of(request, model_id)
    try:
        alias_remove(model=model, name=request.POST.get("name", ""), actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
    return _back(model, _number(request.POST.get("version", "")))


@require_POST
@in_project(Role.EDITOR)
def model_describe(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    """The description, and the tags as one line with commas between them."""
    model = model_of(request, model_id)
    try:
        registry.model_describe(
            model=model,
            actor=request.user,
            description=request.POST.get("description", ""),
            tags=request.POST.get("tags", "").replace("，", ",").split(","),
        )
    except Refused as error:
        messages.error(request, error.message)
    return _back(model, _number(request.POST.get("version", "")))


@require_POST
@in_project(Role.EDITOR)
def model_note(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponse:
    version = version_of(request, model_id, number)
    try:
        registry.model_version_note(version=version, actor=request.user, notes=request.POST.get("notes", ""))
    except Refused as error:
        messages.error(request, error.message)
    return _back(version.model, number)


@require_POST
@in_project(Role.EDITOR)
def model_version_delete(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponse:
    version = version_of(request, model_id, number)
    model = version.model
    try:
        registry.model_version_delete(version=version, actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
        return _back(model, number)
    if TrainedModel.objects.filter(pk=model_id).exists():
        return redirect("model", project.pk, model_id)
    return redirect("models", project.pk)


@require_POST
@in_project(Role.EDITOR)
def model_delete(request: ProjectRequest, project: Project, model_id: UUID) -> HttpResponse:
    model = model_of(request, model_id)
    try:
        registry.model_delete(model=model, actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
        return _back(model, 0)
    return redirect("models", project.pk)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _back(model: TrainedModel, number: int) -> HttpResponse:
    address = reverse("model", args=[model.project_id, model.pk])
    return redirect(f"{address}?version={number}" if number else address)
