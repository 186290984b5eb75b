"""From a grant to a running driver: short, idempotent, and safe to repeat at any point."""

from __future__ import annotations

import logging
from uuid import UUID

from django.conf import settings

from catalog.models import Checkpoint
from jobs import recovery
from jobs.attempts import attempt_begin, attempt_not_started, attempt_started
from jobs.models import Attempt, Job
from jobs.references import start_adapter, teacher_adapter, teacher_base
from trainers.runtime import launch
from trainers.runtime.payload import Folder
from trainers.spec import TaskSpec, parse_spec
from workspaces.vault import secret_value

logger = logging.getLogger(__name__)

GROUP_TIMEOUT_S = 45.0
# How many damaged checkpoints a run passes over before it begins anew.
MOST_TRIED = 10


def grant_dispatch(*, grant_id: UUID) -> None:
    """Claim the grant and bring up its driver; does nothing when that is already done."""
    attempt = attempt_begin(grant_id=grant_id)
    if attempt is not None:
        dispatch(attempt)


def dispatch(attempt: Attempt) -> None:
    """Start the attempt's driver in a placement group on its leased node.

    The driver and the group have the attempt's name, so that a second dispatch finds the first one's instead of making
    another. What fails is undone before the devices go back.
    """
    attempt = Attempt.objects.select_related("job__project", "job__dataset_version", "grant__request").get(
        pk=attempt.pk
    )
    request = attempt.grant.request
    devices = sorted(attempt.grant.leases.values_list("device", flat=True))
    try:
        launch.connect(settings.RAY_ADDRESS, settings.RAY_NAMESPACE)
        count = float(len(devices))
        bundle = {"CPU": count} if request.device_kind == "cpu" else {"GPU": count, "CPU": 1.0}
        group = launch.create_group(attempt.driver, [bundle], [attempt.node_ray_id], GROUP_TIMEOUT_S)
        driver = launch.start_driver(launch_of(attempt, devices), group, bundle)
        status = launch.status(driver)
    except Exception as error:
        logger.warning("attempt %s could not be started", attempt.pk, exc_info=True)
        _undo(attempt, str(error) or type(error).__name__)
        return
    if not attempt_started(attempt=attempt, pid=status["pid"]):
        attempt.refresh_from_db(fields=["ended_at"])
        if attempt.ended_at is not None:
            # It was cancelled and closed while the driver came up, so nobody watches this driver.
            launch.kill_driver(attempt.driver)
            launch.remove_group(attempt.driver)


def launch_of(attempt: Attempt, devices: list[int]) -> launch.Launch:
    """All that the driver needs to know; it never asks the database."""
    job = attempt.job
    request = attempt.grant.request
    evaluation = job.evaluation_version
    task = parse_spec(job.spec)
    teacher = teacher_base(task, [])
    return launch.Launch(
        attempt_id=str(attempt.pk),
        epoch=attempt.number,
        name=attempt.driver,
        spec=job.spec,
        storage_url=settings.STORAGE_URL,
        dataset_key=job.dataset_version.object_key,
        dataset_file=job.dataset_version.file_name,
        evaluation_key=evaluation.object_key if evaluation else None,
        evaluation_file=evaluation.file_name if evaluation else None,
        base_model=job.base_model.source,
        resume_from=tuple(
            Folder(key=row.uri, files=row.files) for row in recovery.checkpoints_to_resume(job.pk)[:MOST_TRIED]
        ),
        mtbf_s=_mtbf(attempt),
        start_from=_folder(start_adapter(job.project, task, job.base_model, [])),
        teacher_model=teacher.source if teacher else None,
        teacher_adapter=_folder(teacher_adapter(job.project, task, teacher or job.base_model, [])),
        cache_dir=str(settings.MODEL_CACHE),
        work_dir=str(settings.WORK_DIR),
        threads=len(devices) if request.device_kind == "cpu" else 1,
        device=request.device_kind,
        secrets=_secrets(job, task),
        gpu_indexes=tuple(devices) if request.device_kind == "gpu" else (),
    )


def _mtbf(attempt: Attempt) -> float:
    lease = attempt.grant.leases.select_related("node").first()
    if lease is None:
        return recovery.USUAL_MTBF.total_seconds()
    return recovery.mean_time_between_failures(lease.node.pool_id)


def _secrets(job: Job, task: TaskSpec) -> dict[str, str]:
    """The keys that the task names, read now and kept nowhere. Raises :class:`Refused` for one that is not there."""
    names = task.reward.secrets if task.reward is not None else []
    return {name: secret_value(job.project.workspace_id, name) for name in names}


def _folder(checkpoint: Checkpoint | None) -> Folder | None:
    return None if checkpoint is None else Folder(key=checkpoint.uri, files=checkpoint.files)


def _undo(attempt: Attempt, why: str) -> None:
    """Give the devices back, but only once no process of the attempt is left; otherwise supervision tries again."""
    try:
        launch.kill_driver(attempt.driver)
        launch.remove_group(attempt.driver)
    except launch.RuntimeUnavailable as error:
        logger.warning("attempt %s keeps its devices: %s", attempt.pk, error)
        return
    attempt_not_started(attempt=attempt, why=why[:500])
