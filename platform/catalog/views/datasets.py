"""Pages of datasets: list, upload, one dataset, its file."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog import selectors, services
from catalog.comparing import shared_prompts
from catalog.forms import UploadForm
from catalog.models import Dataset, DatasetVersion
from catalog.previews import preview_rows
from catalog.problems import grouped
from trainers.data.columns import PARTS
from trainers.storage import Storage, StorageError
from workspaces import access, downloads
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project

PROBLEMS_SHOWN = 30
REPEATS = ("duplicate", "near_duplicate", "conflicting_answer")


@require_safe
@in_project()
def dataset_list(request: ProjectRequest, project: Project) -> HttpResponse:
    datasets = selectors.datasets_visible_to(request.user).filter(project=project)
    rows = [(dataset, next(iter(dataset.versions.all()), None)) for dataset in datasets]
    return render(request, "catalog/datasets.html", {"rows": [row for row in rows if row[1] is not None]})


@require_safe
@in_project()
def dataset_detail(request: ProjectRequest, project: Project, dataset_id: UUID) -> HttpResponse:
    """One dataset: the version asked for (the newest without a choice), and the list of all."""
    dataset = _dataset(request, project, dataset_id)
    versions = list(dataset.versions.all())
    wanted = request.GET.get("version", "")
    version = next((v for v in versions if str(v.number) == wanted), versions[0] if versions else None)
    if version is None:
        raise Http404
    problems = grouped(version.report.get("problems", []))
    shown = problems if request.GET.get("problems") == "all" else problems[:PROBLEMS_SHOWN]
    lengths = version.report.get("lengths", {})
    context = {
        "dataset": dataset,
        "version": version,
        "versions": versions,
        "report": version.report,
        "problems": shown,
        "more_problems": len(problems) - len(shown),
        "preview": preview_rows(version),
        "lengths": [(part, lengths[part]) for part in PARTS if part in lengths],
        "repeats": sum(version.report.get("counts", {}).get(kind, 0) for kind in REPEATS),
        "others": selectors.versions_to_compare(request.user, version),
    }
    return render(request, "catalog/dataset.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def dataset_upload(request: ProjectRequest, project: Project) -> HttpResponse:
    """Check and store a file. Scripts, which show the progress, get the address or the refusal as JSON."""
    scripted = request.headers.get("X-Requested-With") == "fetch"
    posted = request.method == "POST"
    form = UploadForm(
        data=request.POST if posted else None,
        files=request.FILES if posted else None,
        initial={"name": request.GET.get("name", "")},
    )
    refusal: Refused | StorageError | None = None
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            version = services.dataset_upload(
                project=project,
                name=data["name"],
                file=data["file"],
                file_name=data["file"].name or "",
                actor=request.user,
                columns=form.columns(),
            )
        except (Refused, StorageError) as error:
            refusal = error
        else:
            url = reverse("dataset", args=[project.pk, version.dataset_id])
            return JsonResponse({"url": url}, status=201) if scripted else redirect(url)
    report = getattr(refusal, "report", None)
    # The refusal itself need not be said a second time.
    found = [problem for problem in report.problems if problem.message not in str(refusal)] if report else []
    problems = grouped([problem.model_dump() for problem in found])[:PROBLEMS_SHOWN]
    context = {"form": form, "refusal": refusal, "report": report, "problems": problems}
    if scripted:
        html = render_to_string("catalog/upload_refused.html", context, request)
        return JsonResponse({"html": html}, status=422)
    context |= {"limit": settings.UPLOAD_MAX_BYTES}
    status = 200 if request.method != "POST" else 422
    return render(request, "catalog/upload.html", context, status=status)


@require_safe
@in_project()
def dataset_file(request: ProjectRequest, project: Project, dataset_id: UUID, number: int) -> HttpResponseBase:
    """The uploaded file of a version, byte for byte."""
    version = _version(request, project, dataset_id, number)
    storage = Storage(settings.STORAGE_URL)
    try:
        storage.size(version.object_key)
    except StorageError as error:
        return HttpResponse(error.message, status=503, content_type="text/plain; charset=utf-8")
    return downloads.download(request, downloads.file_stream(storage, version.object_key), version.file_name)


@require_safe
@in_project()
def dataset_compare(request: ProjectRequest, project: Project, dataset_id: UUID, number: int) -> HttpResponse:
    """Which prompts of a version are also in another one (``?with=<id>``)."""
    version = _version(request, project, dataset_id, number)
    wanted = request.GET.get("with", "")
    others = {str(other.pk): other for other in selectors.versions_to_compare(request.user, version)}
    if wanted not in others:
        return render(request, "catalog/overlap.html", {"refusal": _("Choose another dataset of this project.")})
    context: dict[str, object] = {"other": others[wanted]}
    try:
        context["found"] = shared_prompts(version, others[wanted])
    except (Refused, StorageError) as error:
        context["refusal"] = error.message
    return render(request, "catalog/overlap.html", context)


@require_POST
@in_project(Role.EDITOR)
def dataset_delete(request: ProjectRequest, project: Project, dataset_id: UUID) -> HttpResponse:
    dataset = _dataset(request, project, dataset_id)
    try:
        services.dataset_delete(dataset=dataset, actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
        return redirect("dataset", project.pk, dataset.pk)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": dataset.name})
    return redirect("datasets", project.pk)


def _dataset(request: ProjectRequest, project: Project, dataset_id: UUID) -> Dataset:
    return access.get(selectors.datasets_visible_to(request.user).filter(project=project), dataset_id, request.user)


def _version(request: ProjectRequest, project: Project, dataset_id: UUID, number: int) -> DatasetVersion:
    version: DatasetVersion | None = _dataset(request, project, dataset_id).versions.filter(number=number).first()
    if version is None:
        raise Http404
    return version
