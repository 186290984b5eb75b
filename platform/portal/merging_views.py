"""Merged weights of a model version: asked for, waited for, downloaded."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from catalog import archive
from catalog.models import ModelVersion
from jobs.merging import merged_ask
from portal.registry_pages import version_of
from trainers.storage import Storage, StorageError
from workspaces import downloads
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


@require_safe
@in_project()
def merged_state(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponse:
    """The button for the merged weights as it stands now; the page asks again while they are being made."""
    return render(request, "portal/merged.html", {"version": version_of(request, model_id, number)})


@require_POST
@in_project(Role.EDITOR)
def merged_make(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponse:
    """Have the merged weights made; asking again while they are made, or after, changes nothing."""
    version = version_of(request, model_id, number)
    merged_ask(version=version, actor=request.user)
    if request.headers.get("HX-Request"):
        version.refresh_from_db(fields=["merged", "merged_error", "merged_uri"])
        return render(request, "portal/merged.html", {"version": version})
    return redirect(f"{reverse('model', args=[project.pk, model_id])}?version={number}")


@require_safe
@in_project()
def merged_download(request: ProjectRequest, project: Project, model_id: UUID, number: int) -> HttpResponseBase:
    """The merged weights as a zip that transformers loads once unpacked."""
    version = version_of(request, model_id, number)
    if version.merged != ModelVersion.Merged.READY:
        raise Http404
    storage = Storage(settings.STORAGE_URL)
    try:
        names = [item["name"] for item in storage.read_manifest(version.merged_uri)]
    except StorageError as error:
        return HttpResponse(error.message, status=503, content_type="text/plain; charset=utf-8")
    folder = downloads.plain_name(f"{version.model.name} v{number} merged")
    chunks = archive.zip_stream(storage, version.merged_uri, names, folder)
    return downloads.download(request, chunks, f"{folder}.zip", "application/zip")
