"""The list of trained models, and their download."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import Http404
from django.http import HttpResponse as Response
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog import archive, selectors
from trainers.storage import Storage, StorageError
from workspaces import access, downloads
from workspaces.models import Project
from workspaces.scope import ProjectRequest, in_project


@require_safe
@in_project()
def model_list(request: ProjectRequest, project: Project) -> Response:
    """Trained models of the project, and the base models there are to start from."""
    context = {
        "latest": selectors.latest_model_versions(request.user, project),
        "base_models": selectors.base_models_usable(),
    }
    return render(request, "catalog/models.html", context)


@require_safe
@in_project()
def adapter_download(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponseBase:
    """The adapter of a version as a zip: the files that PEFT reads, byte for byte as the run stored them."""
    model = access.get(selectors.models_visible_to(request.user).filter(project=project), model_id, request.user)
    version = model.versions.select_related("checkpoint").filter(number=number).first()
    if version is None:
        raise Http404
    storage, checkpoint = Storage(settings.STORAGE_URL), version.checkpoint
    names = [item["name"] for item in checkpoint.files]
    try:
        missing = [name for name in names if not storage.exists(f"{checkpoint.uri}/{name}")]
    except StorageError as error:
        return Response(error.message, status=503, content_type="text/plain; charset=utf-8")
    if missing or not names:
        return Response("The files of this version are no longer in storage.", status=410, content_type="text/plain")
    folder = downloads.plain_name(f"{model.name} v{number}")
    chunks = archive.zip_stream(storage, checkpoint.uri, names, folder)
    return downloads.download(request, chunks, f"{folder}.zip", "application/zip")
