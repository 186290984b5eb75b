"""/jobs/{id}/…: pause, resume, attempts and checkpoints."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from ninja import Router

from gateway.rest.auth import caller, scoped
from gateway.rest.job_views import full
from gateway.rest.jobs import visible_job
from gateway.rest.life_schemas import AttemptOut, CheckpointOut, KeepIn, ResumeIn
from gateway.rest.schemas import CancelIn, JobOut, Page, refusals
from jobs.attempt_rows import attempt_rows
from jobs.checkpoints import checkpoint_of, checkpoint_packed, checkpoint_rows
from jobs.resuming import job_resume
from jobs.retention import checkpoint_keep
from jobs.services import job_pause
from workspaces.downloads import download
from workspaces.models import Role
from workspaces.scopes import Scope

router = Router(tags=["jobs"])
ZIP = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}


@router.post(
    "/jobs/{uuid:job_id}/pause",
    response={200: JobOut, **refusals(400, 403, 404, 409)},
    summary="Have it write a checkpoint and give its devices back; again, it changes nothing",
    operation_id="job_pause",
    auth=scoped(Scope.TRAIN),
)
def job_rest(request: HttpRequest, job_id: UUID, body: CancelIn | None = None) -> dict[str, Any]:
    user = caller(request)
    job_pause(job=visible_job(user, job_id, Role.EDITOR), actor=user, reason=body.reason if body else "")
    return full(visible_job(user, job_id))


@router.post(
    "/jobs/{uuid:job_id}/resume",
    response={200: JobOut, **refusals(400, 403, 404, 409)},
    summary="Queue a paused job again, with a larger budget if need be; it goes on from its newest checkpoint",
    operation_id="job_resume",
    auth=scoped(Scope.TRAIN),
)
def job_go_on(request: HttpRequest, job_id: UUID, body: ResumeIn | None = None) -> dict[str, Any]:
    user = caller(request)
    wish = body or ResumeIn()
    job_resume(
        job=visible_job(user, job_id, Role.EDITOR),
        actor=user,
        amount=wish.amount,
        minutes=wish.minutes,
        reason=wish.reason,
    )
    return full(visible_job(user, job_id))


@router.get(
    "/jobs/{uuid:job_id}/attempts",
    response={200: Page[AttemptOut], **refusals(404)},
    summary="What was tried: each run of the job on leased devices",
    operation_id="job_attempts",
)
def job_attempts(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return {"items": attempt_rows(visible_job(caller(request), job_id)), "next": None}


@router.get(
    "/jobs/{uuid:job_id}/checkpoints",
    response={200: Page[CheckpointOut], **refusals(404)},
    summary="The stored checkpoints, newest first",
    operation_id="job_checkpoints",
)
def job_checkpoints(request: HttpRequest, job_id: UUID) -> dict[str, Any]:
    return {"items": checkpoint_rows(visible_job(caller(request), job_id)), "next": None}


@router.post(
    "/jobs/{uuid:job_id}/checkpoints/{uuid:checkpoint_id}/keep",
    response={200: CheckpointOut, **refusals(400, 403, 404)},
    summary="Keep a checkpoint from being deleted for newer ones, or give it free",
    operation_id="checkpoint_keep",
    auth=scoped(Scope.TRAIN),
)
def job_checkpoint_keep(request: HttpRequest, job_id: UUID, checkpoint_id: UUID, body: KeepIn) -> dict[str, Any]:
    user = caller(request)
    job = visible_job(user, job_id, Role.EDITOR)
    checkpoint = checkpoint_of(job, checkpoint_id)
    checkpoint_keep(checkpoint=checkpoint, job=job, keep=body.kept, actor=user)
    return next(row for row in checkpoint_rows(job) if row["id"] == checkpoint.pk)


@router.get(
    "/jobs/{uuid:job_id}/checkpoints/{uuid:checkpoint_id}/download",
    response={200: None, **refusals(404)},
    summary="All files of a checkpoint as one zip",
    operation_id="checkpoint_download",
    openapi_extra={"responses": {200: ZIP}},
)
def job_checkpoint_download(request: HttpRequest, job_id: UUID, checkpoint_id: UUID) -> HttpResponseBase:
    job = visible_job(caller(request), job_id)
    name, stream = checkpoint_packed(job, checkpoint_of(job, checkpoint_id))
    return download(request, stream, name, "application/zip")
