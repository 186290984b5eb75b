"""Which jobs stand on a model version: those that go on from it, and those that learn from it."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q, QuerySet

from catalog.models import ModelVersion
from jobs.models import Job
from jobs.states import TERMINAL


def jobs_from(versions: Sequence[ModelVersion]) -> QuerySet[Job]:
    """The jobs whose task names one of these versions, or its checkpoint, as its start or its teacher."""
    names = [name for row in versions for name in (row.source, f"checkpoint:{row.checkpoint_id}")]
    projects = {row.model.project_id for row in versions}
    return Job.objects.filter(
        Q(spec__model__start_from__in=names) | Q(spec__distillation__teacher_adapter__in=names), project__in=projects
    )


def why_needed(versions: Sequence[ModelVersion]) -> str:
    """The sentence why these versions cannot be deleted now; empty when no job needs them."""
    needing = jobs_from(versions).exclude(state__in=TERMINAL)
    names = list(needing.order_by("created_at").values_list("name", flat=True)[:4])
    if not names:
        return ""
    listed = ", ".join(f"“{name}”" for name in names[:3]) + (" and others" if len(names) > 3 else "")
    return f"The job {listed} goes on from it and has not ended. Cancel the job or wait for its end."
