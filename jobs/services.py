"""Writes of a job's life: submit, cancel, and every change of state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from catalog.models import BaseModel, DatasetVersion, RewardVersion
from catalog.previews import columns_by_hand
from compute import services as compute
from jobs import hints, mails
from jobs.ids import uuid_of
from jobs.models import Job, TimelineEntry
from jobs.placement import device_need
from jobs.references import check_references, with_tasks, with_versions_pinned
from jobs.states import ACTIVE, TERMINAL, WITHOUT_PROCESS, State, TransitionError, check
from jobs.submission import submission_note
from trainers.spec import Columns, SpecError, TaskSpec, parse_spec
from workspaces.errors import Refused
from workspaces.models import Project, User
from workspaces.quota import check_room
from workspaces.services import audit
from workspaces.vault import mask_of_project

HOLDER = "job"
_SOURCE = re.compile(r"^dataset:(?P<id>[0-9a-fA-F-]{32,36})@(?P<number>\d{1,9})$")


def job_submit(
    *,
    project: Project,
    spec: dict[str, Any] | TaskSpec,
    submitted_by: User,
    idempotency_key: str,
    reward_version: RewardVersion | None = None,
    copied_from: Job | None = None,
) -> Job:
    """Check a task spec, store the job, and queue it for devices.

    The same key in the same project gives the same job, however often and from wherever it comes. Raises
    :class:`trainers.spec.SpecError` naming every field that cannot be run.
    """
    if not idempotency_key or len(idempotency_key) > 200:
        raise SpecError([("idempotency_key", "must have 1 to 200 characters")])
    known = Job.objects.filter(project=project, idempotency_key=idempotency_key).first()
    if known is not None:
        return known
    task = spec if isinstance(spec, TaskSpec) else parse_spec(spec)
    try:
        check_room(project.workspace, 0, "The job")
    except Refused as error:
        raise SpecError([("", error.message)]) from None
    task = with_tasks(project, task, submitted_by)
    parts = _resolve(project, task)
    task = _with_columns_chosen_at_upload(task, parts["dataset_version"])
    need = device_need(task, parts["base_model"])
    try:
        with transaction.atomic():
            task = with_versions_pinned(project, task)
            job = Job.objects.create(
                project=project,
                name=task.name,
                spec=task.model_dump(mode="json"),
                idempotency_key=idempotency_key,
                submitted_by=submitted_by,
                reward_version=reward_version,
                total_steps=task.hyperparameters.steps,
                **parts,
            )
            compute.request_create(
                holder_kind=HOLDER,
                holder_id=job.pk,
                epoch=job.epoch,
                device_kind=need.kind,
                devices=need.devices,
                tier=task.resources.tier,
            )
            submission_note(job=job, task=task, copied_from=copied_from)
            enter(job, None, State.QUEUED, actor=submitted_by, reason="Submitted.")
            audit(
                workspace=project.workspace, actor=submitted_by, action="job.submit", obj=job, detail={"name": job.name}
            )
    except IntegrityError:
        # The same submission came twice at once; the other one was first.
        return Job.objects.get(project=project, idempotency_key=idempotency_key)
    return job


def _resolve(project: Project, task: TaskSpec) -> dict[str, Any]:
    errors: list[tuple[str, str]] = []
    dataset = _dataset(project, task.data.source, "data.source", errors)
    evaluation = None
    if task.evaluation.source:
        evaluation = _dataset(project, task.evaluation.source, "evaluation.source", errors)
    base = BaseModel.objects.filter(name=task.model.base, enabled=True).first()
    if base is None:
        names = ", ".join(BaseModel.objects.filter(enabled=True).values_list("name", flat=True)) or "none yet"
        errors.append(("model.base", f"there is no base model called {task.model.base!r}; there are: {names}"))
    check_references(project, task, base, errors)
    if errors:
        raise SpecError(errors)
    return {"dataset_version": dataset, "evaluation_version": evaluation, "base_model": base}


def _with_columns_chosen_at_upload(task: TaskSpec, version: DatasetVersion) -> TaskSpec:
    """Write the columns a person chose for the file into the task, as their names alone would not tell."""
    named = task.data.columns.model_dump(exclude_none=True)
    columns = Columns(**(columns_by_hand(version) | named))
    return task.model_copy(update={"data": task.data.model_copy(update={"columns": columns})})


def _dataset(project: Project, source: str, path: str, errors: list[tuple[str, str]]) -> DatasetVersion | None:
    match = _SOURCE.match(source)
    if match is None:
        errors.append(
            (path, "must name a registered dataset and its version, as dataset:<id>@<number>; upload a file first")
        )
        return None
    version = (
        DatasetVersion.objects.select_related("dataset")
        .filter(dataset_id=known, number=int(match["number"]), dataset__project=project)
        .first()
        if (known := uuid_of(match["id"])) is not None
        else None
    )
    if version is None:
        errors.append((path, f"this project has no dataset {source}"))
    return version


def job_cancel(*, job: Job, actor: User | None, reason: str = "") -> Job:
    """Stop a job in whatever state it is; asking twice, or after its end, changes nothing."""
    why = reason.strip()[:500] or "Cancelled."
    with transaction.atomic():
        locked = Job.objects.select_for_update(of=("self",)).select_related("project__workspace").get(pk=job.pk)
        state = State(locked.state)
        if state in TERMINAL or state == State.CANCELLING:
            return locked
        # Without devices there is no process to stop; otherwise supervision stops it and confirms its end.
        direct = state in WITHOUT_PROCESS
        if direct:
            compute.request_withdraw(holder_kind=HOLDER, holder_id=locked.pk)
        enter(locked, state, State.CANCELLED if direct else State.CANCELLING, actor=actor, reason=why)
        audit(workspace=locked.project.workspace, actor=actor, action="job.cancel", obj=locked, detail={"reason": why})
    return locked


def job_pause(*, job: Job, actor: User | None, reason: str = "") -> Job:
    """Have a job write a checkpoint and give its devices back; without a process it is paused at once.

    Changes nothing for one that is paused or pausing. Raises :class:`TransitionError` for one that has ended or ends.
    """
    why = reason.strip()[:500] or "Paused."
    with transaction.atomic():
        locked = Job.objects.select_for_update(of=("self",)).select_related("project__workspace").get(pk=job.pk)
        state = State(locked.state)
        if state in (State.PAUSED, State.PAUSING):
            return locked
        direct = state in WITHOUT_PROCESS
        target = State.PAUSED if direct else State.PAUSING
        check(state, target)
        if direct:
            compute.request_withdraw(holder_kind=HOLDER, holder_id=locked.pk)
        enter(locked, state, target, actor=actor, reason=why, **({"eta_s": None} if direct else {}))
        audit(workspace=locked.project.workspace, actor=actor, action="job.pause", obj=locked, detail={"reason": why})
    return locked


def job_transition(
    *,
    job_id: UUID,
    to: State,
    reason: str,
    only_from: Iterable[State] = ACTIVE,
    actor: User | None = None,
    attempt: int | None = None,
    **fields: Any,
) -> Job | None:
    """Change a job's state if the table allows it and it is still in one of ``only_from``.

    Returns the job, or None when another process was first and there is nothing left to change. ``fields`` are stored
    with it.
    """
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
        source = State(job.state)
        if source not in set(only_from):
            return None
        try:
            enter(job, source, to, actor=actor, reason=reason, attempt=attempt, **fields)
        except TransitionError:
            return None
    return job


def job_note(*, job_id: UUID, attempt: int | None, reason: str) -> None:
    """Put a line into the timeline that is no change of state."""
    job = Job.objects.get(pk=job_id)
    TimelineEntry.objects.create(
        job=job,
        attempt=attempt,
        actor_label="Tuneyard",
        from_state=job.state,
        to_state=job.state,
        reason=mask_of_project(job.project_id).text(reason),
    )


def enter(
    job: Job,
    source: State | None,
    target: State,
    *,
    actor: User | None,
    reason: str,
    attempt: int | None = None,
    **fields: Any,
) -> None:
    """The one place where a job's state changes: row, timeline, hint. The caller holds the row's lock."""
    if source is not None:
        check(source, target)
    # What ended a run may quote anything that the run knew.
    reason = mask_of_project(job.project_id).text(reason)
    now = timezone.now()
    if target in TERMINAL:
        fields.setdefault("ended_at", now)
        fields.setdefault("eta_s", None)
    if target == State.RUNNING and job.started_at is None:
        fields["started_at"] = now
    fields |= {"state": target.value, "reason": reason}
    for name, value in fields.items():
        setattr(job, name, value)
    job.save(update_fields=list(fields))
    TimelineEntry.objects.create(
        job=job,
        attempt=attempt,
        actor=actor,
        actor_label=str(actor) if actor else "Tuneyard",
        from_state=source.value if source else "",
        to_state=target.value,
        reason=reason,
    )
    if target in mails.TOLD:
        mails.job_ended(job)
    hints.after_commit(job.pk)
