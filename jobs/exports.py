"""Metrics as CSV: every point, or the table of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jobs.compare import Run, metric_table
from records.selectors import every_point
from workspaces.csv_rows import csv_rows

HEADER = ("job", "name", "metric", "attempt", "step", "value", "time", "running_s", "tokens")


def points_csv(runs: list[Run], keys: list[str] | None = None) -> Iterator[bytes]:
    """All points of these metrics (None: of all), the overwritten ones of earlier attempts too, run by run."""

    def rows() -> Iterator[Iterable[Any]]:
        yield HEADER
        for run in runs:
            for key, attempt, step, value, at, active_s, tokens in every_point(("job", run.job.pk), keys):
                when = at.isoformat(timespec="milliseconds")
                yield run.job.pk, run.job.name, key, attempt, step, value, when, round(active_s, 3), tokens

    return _blocks(rows())


def table_csv(runs: list[Run], keys: list[str]) -> Iterator[bytes]:
    """Last and best value of each metric, a row for each run and metric."""

    def rows() -> Iterator[Iterable[Any]]:
        yield "job", "name", "metric", "last", "last_step", "best", "best_step"
        for metric in metric_table(runs, keys):
            for run, cell in zip(runs, metric.cells, strict=True):
                if cell:
                    yield run.job.pk, run.job.name, metric.key, *cell.values()

    return _blocks(rows())


def _blocks(rows: Iterator[Iterable[Any]], size: int = 500) -> Iterator[bytes]:
    while block := list(islice(rows, size)):
        yield csv_rows(block)
