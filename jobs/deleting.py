"""The end of a job that has ended: its rows, records and files go. The bill and the models it made stay."""

from __future__ import annotations

from django.db import transaction

from catalog.discarding import discard
from catalog.models import Checkpoint, ModelVersion
from jobs.models import Attempt, Job
from jobs.services import HOLDER
from jobs.states import TERMINAL, State
from records.services import forget
from trainers.runtime.payload import checkpoint_prefix
from trainers.runtime.segments import journal_prefix
from workspaces.closing import messages_forget
from workspaces.errors import Refused
from workspaces.models import User
from workspaces.services import audit


@transaction.atomic
def job_delete(*, job: Job, actor: User) -> None:
    """Delete a job that has ended, with its charts, samples, log, report and the checkpoints no model needs.

    Raises :class:`Refused` while it has not ended, or a process of it may still write.
    """
    locked = Job.objects.select_for_update(of=("self",)).select_related("project__workspace").get(pk=job.pk)
    attempts = Attempt.objects.filter(job=locked)
    if State(locked.state) not in TERMINAL or attempts.filter(ended_at=None).exists():
        raise Refused("A job is deleted once it has ended; cancel it first.")
    audit(
        workspace=locked.project.workspace, actor=actor, action="job.delete", obj=locked, detail={"name": locked.name}
    )
    kept = ModelVersion.objects.values("checkpoint_id")
    checkpoints = Checkpoint.objects.filter(made_by_kind=HOLDER, made_by_id=locked.pk).exclude(pk__in=kept)
    folders = [f"reports/{locked.pk}", *checkpoints.values_list("uri", flat=True)]
    # A model's weights lie in the folder of the attempt that wrote them; only unneeded attempts go whole.
    needed = set(Checkpoint.objects.filter(pk__in=kept, made_by_id=locked.pk).values_list("epoch", flat=True))
    for pk, number in attempts.values_list("pk", "number"):
        folders.append(journal_prefix(str(pk), number))
        if number not in needed:
            folders.append(checkpoint_prefix(str(pk), number))
    checkpoints.delete()
    forget(subject_kind=HOLDER, subject_ids=[locked.pk])
    messages_forget([f"job:{locked.pk}:"])
    locked.delete()
    discard(folders)
