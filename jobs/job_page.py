"""What the page of a job shows, gathered for its templates."""

from __future__ import annotations

import json
from typing import Any

from django.urls import reverse

from billing.selectors import bill_of, cost_of
from jobs.attempt_rows import attempt_rows
from jobs.checkpoints import checkpoint_rows
from jobs.estimate import Estimate, estimate_job
from jobs.form_values import values_of
from jobs.forms import group_title
from jobs.models import Job
from jobs.resume_form import ResumeForm
from jobs.selectors import job_summary
from jobs.spec_fields import format_value, spec_fields
from jobs.states import ACTIVE, TABLE, State
from jobs.suggestions import suggested_changes
from records.selectors import log_tail, newest_rollout
from trainers.spec import SpecError, parse_spec
from workspaces.vault import mask_of_project

PANELS = {
    "charts": "Charts",
    "rollouts": "Rollouts",
    "log": "Log",
    "checkpoints": "Checkpoints",
    "timeline": "Timeline",
    "cost": "Cost",
    "config": "Config",
}
LOG_TAIL = 200


def page_context(job: Job, tab: str, chart_view: str = "") -> dict[str, Any]:
    """Everything of the page; ``tab`` is the panel that is open, ``chart_view`` how the reader has set the charts."""
    addresses = {
        name: reverse(f"job-{name}", args=[job.project_id, job.pk]) for name in ("updates", "parts", "rollouts", "log")
    }
    # Only for showing: the job itself is not saved from here.
    job.spec = mask_of_project(job.project_id).value(job.spec)
    return parts_context(job) | {
        "tab": tab,
        "panels": PANELS,
        "addresses": addresses,
        "has_rollouts": newest_rollout(("job", job.pk)) is not None,
        "config": _config_table(job),
        "spec_json": json.dumps(job.spec, indent=2, ensure_ascii=False),
        "live": addresses
        | {
            "socket": f"/ws/jobs/{job.pk}/",
            "state": job.state,
            "name": job.name,
            "metrics": reverse("job-metrics", args=[job.project_id, job.pk]),
            "chart_view": chart_view,
            "keep_view": reverse("chart-view", args=[job.project_id]),
        },
    }


def parts_context(job: Job) -> dict[str, Any]:
    """What depends on the job's state."""
    state = State(job.state)
    summary = job_summary(job)
    return {
        "job": job,
        "state": TABLE[state],
        "summary": summary,
        "active": state in ACTIVE,
        "percent": round(job.fraction * 100),
        "timeline": list(job.timeline.select_related("actor").order_by("-id")),
        "states": {value.value: TABLE[value] for value in State},
        "bill": bill_of("job", job.pk),
        "cost": cost_of("job", job.pk),
        "attempts": attempt_rows(job),
        "checkpoints": checkpoint_rows(job),
        "suggested": suggested_changes(job) if state == State.FAILED else [],
        "resume_form": ResumeForm(job=job) if state == State.PAUSED else None,
        "figures": _figures(job),
        "last_lines": log_tail(("job", job.pk), LOG_TAIL) if state == State.FAILED else [],
        "estimate": _estimate(job) if state == State.QUEUED else None,
        "recipe": job.spec.get("recipe", ""),
        "loss": job.spec.get("loss", {}).get("name", ""),
        "rank": job.spec.get("model", {}).get("adapter", {}).get("rank"),
    }


def _estimate(job: Job) -> Estimate | None:
    try:
        task = parse_spec(job.spec)
    except SpecError:
        return None
    return estimate_job(task=task, base=job.base_model, rows=job.dataset_version.usable_rows)


# What a result may hold, in the order in which it is told: key, label, whether it is a fraction.
RESULTS = (
    ("accuracy", "Accuracy", True),
    ("reward", "Reward", False),
    ("accuracy_greedy", "Accuracy, greedy", True),
    ("reward_greedy", "Reward, greedy", False),
    ("loss", "Loss", False),
)


def _figures(job: Job) -> list[dict[str, Any]]:
    """Before and after on held-out prompts."""
    result = job.result or {}
    before, after = result.get("before") or {}, result.get("after") or {}
    return [
        {"label": label, "before": before[key], "after": after[key], "is_fraction": fraction}
        for key, label, fraction in RESULTS
        if before.get(key) is not None and after.get(key) is not None
    ]


def _config_table(job: Job) -> list[dict[str, Any]]:
    """The spec as groups of rows, each with whether it differs from the default; none for a spec of another version."""
    try:
        task = parse_spec(job.spec)
    except SpecError:
        return []
    values = values_of(task)
    groups: dict[str, list[dict[str, Any]]] = {}
    for field in spec_fields():
        if task.recipe not in field.recipes:
            continue
        value = values[field.path]
        usual = bool(field.default) if field.control == "switch" else field.default_text
        groups.setdefault(group_title(field) if "." in field.path else "Task", []).append(
            {
                "field": field,
                "value": format_value(value) if isinstance(value, bool) else value,
                "changed": not field.required and value != usual,
            }
        )
    return [{"title": title, "rows": rows} for title, rows in groups.items()]
