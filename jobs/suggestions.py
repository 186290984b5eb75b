"""What to change in a task that failed by its own settings, as values of the form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jobs.form_values import values_of
from jobs.models import Job
from jobs.sizes import CUSTOM, GOVERNED
from jobs.spec_diff import Change
from jobs.spec_fields import format_value, spec_field
from trainers.spec import SpecError, TaskSpec, parse_spec

_CHECKPOINT = re.compile(r"^checkpoint:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
START_FROM = "model.start_from"


def suggested_changes(job: Job) -> list[Change]:
    """What to change before trying again; empty where nothing can be computed (the job's advice is then all)."""
    try:
        task = parse_spec(job.spec)
    except SpecError:
        return []
    wanted: dict[str, Any] = {}
    if job.failure_kind == "out_of_memory":
        wanted = _with_less_memory(task)
    elif job.failure_kind == "not_finite":
        wanted = {"hyperparameters.learning_rate": float(f"{task.hyperparameters.learning_rate / 3:.2g}")}
    now = values_of(task)
    return [
        Change(field.path, field.label, str(now[field.path]), format_value(value))
        for path, value in wanted.items()
        if (field := spec_field(path)) is not None
    ]


def _with_less_memory(task: TaskSpec) -> dict[str, Any]:
    """Half of the largest thing that need not be so large: prompts per step, then completions, then their length."""
    hyper, sampling = task.hyperparameters, task.sampling
    if hyper.batch_size > 1:
        return {"hyperparameters.batch_size": hyper.batch_size // 2}
    if sampling.group_size > 3:
        return {"sampling.group_size": sampling.group_size // 2}
    if sampling.max_new_tokens > 16:
        return {"sampling.max_new_tokens": sampling.max_new_tokens // 2}
    return {}


def changes_of_link(query: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """What a link to the copy of a job changes: ``suggested=1``, ``start_from=checkpoint:<id>``; by form field."""
    changed: dict[str, Any] = {}
    if query.get("suggested"):
        changed |= {change.path: change.after for change in suggested_changes(job)}
    start_from = str(query.get("start_from", ""))
    if _CHECKPOINT.match(start_from):
        changed[START_FROM] = start_from
    if changed.keys() & set(GOVERNED):
        changed["size"] = CUSTOM
    return changed
