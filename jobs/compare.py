"""Several jobs side by side: what they were told, what came of it, and the lines of one metric."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.models import Job
from jobs.selectors import jobs_visible_to
from jobs.states import ACTIVE, TABLE, Row, State
from records.models import Series
from records.overlay import Axis, Extremes, Line, extremes, overlay
from records.selectors import number
from workspaces.models import User
from workspaces.vault import mask_of_project

MOST_RUNS = 20
# Columns of the table of values; a run may log thousands of metrics.
MOST_METRICS = 24
# Of these the lowest value is the best; of all others the highest.
LOWER_IS_BETTER = ("loss", "kl", "entropy", "grad_norm", "truncated", "perplexity", "mismatch", "error", "_s")
FIRST = ("eval/", "train/reward", "train/accuracy", "train/loss", "train/", "reward/")
MISSING = "–"


@dataclass(frozen=True)
class Run:
    job: Job
    state: Row
    active: bool
    spec: dict[str, Any]

    @property
    def short_id(self) -> str:
        """What tells runs of one name apart."""
        return self.job.pk.hex[:6]


@dataclass(frozen=True)
class Field:
    """One field of the configuration: its text for each run, and whether the runs differ from the base run in it."""

    path: str
    values: list[str]
    differs: list[bool]
    numbers: list[float | None]


@dataclass(frozen=True)
class Metric:
    key: str
    lower_is_better: bool
    cells: list[dict[str, Any] | None]
    winner: int | None


def runs_of(user: User, ids: Collection[UUID]) -> list[Run]:
    """The jobs with these ids that this person may see, in the order of ``ids``; secrets are masked."""
    jobs = {job.pk: job for job in jobs_visible_to(user).filter(pk__in=ids)}
    masks = {project: mask_of_project(project) for project in {job.project_id for job in jobs.values()}}
    found = []
    for job in (jobs[id] for id in ids if id in jobs):
        state = State(job.state)
        found.append(Run(job, TABLE[state], state in ACTIVE, masks[job.project_id].value(job.spec)))
    return found


def configuration(runs: list[Run], base: int = 0) -> list[Field]:
    """Every field of the runs' configurations; those in which a run differs from the run ``base`` say so."""
    columns = [dict(_flat(_named(run))) for run in runs]
    fields = []
    for path in dict.fromkeys(path for column in columns for path in column):
        values = [_text(column.get(path)) for column in columns]
        numbers = [_number(column.get(path)) for column in columns]
        fields.append(Field(path, values, [value != values[base] for value in values], numbers))
    return fields


def _named(run: Run) -> dict[str, Any]:
    """The spec, with data and reward by the names people gave them."""
    job = run.job
    spec = {key: value for key, value in run.spec.items() if key not in ("name", "version")}
    data = {key: value for key, value in spec.pop("data", {}).items() if key != "source"}
    return {"base model": job.base_model.title, "dataset": str(job.dataset_version), "data": data} | spec


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _text(value: Any) -> str:
    if value is None or value == {}:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def metric_keys(runs: list[Run]) -> list[str]:
    """Every metric that one of the runs has, the important ones first."""
    ids = [run.job.pk for run in runs]
    keys = set(Series.objects.filter(subject_kind="job", subject_id__in=ids).values_list("key", flat=True))
    rank = {key: next((n for n, start in enumerate(FIRST) if key.startswith(start)), len(FIRST)) for key in keys}
    return sorted(keys, key=lambda key: (rank[key], key))


def metric_table(runs: list[Run], keys: list[str]) -> list[Metric]:
    """Last and best value of each metric for each run, and which run is best in it."""
    found = extremes("job", [run.job.pk for run in runs], keys)
    table = []
    for key in keys:
        lower = key.endswith(LOWER_IS_BETTER)
        cells = [_cell(found.get((run.job.pk, key)), lower) for run in runs]
        best = [(cell["best"], at) for at, cell in enumerate(cells) if cell and cell["best"] is not None]
        winner = (min if lower else max)(best, key=lambda pair: pair[0])[1] if len(best) > 1 else None
        table.append(Metric(key, lower, cells, winner))
    return table


def _cell(value: Extremes | None, lower: bool) -> dict[str, Any] | None:
    if value is None:
        return None
    best = value.low if lower else value.high
    return {
        "last": None if value.last is None else number(value.last),
        "last_step": value.last_step,
        "best": best and best[0],
        "best_step": best and best[1],
    }


def lines(runs: list[Run], key: str, axis: Axis) -> list[dict[str, Any]]:
    """The lines of one metric, one for each run that has it, as the page's chart takes them.

    On the axis ``wall`` an x is seconds since that run's start.
    """
    found = overlay("job", [run.job.pk for run in runs], key, axis)
    return [
        {"id": str(run.job.pk), "gaps": line.gaps, "x": _since(line, run, axis), "y": line.ys}
        for run in runs
        if (line := found.get(run.job.pk)) is not None
    ]


def _since(line: Line, run: Run, axis: Axis) -> list[float]:
    if axis != "wall" or not line.xs:
        return line.xs
    start = run.job.started_at.timestamp() if run.job.started_at else line.xs[0]
    return [round(x - start, 1) for x in line.xs]
