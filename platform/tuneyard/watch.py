"""The progress of a job in a terminal; where the output is no terminal, a line per change."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any, Union

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from tuneyard.errors import JobFailed
from tuneyard.jobs import JobHandle, ending

Number = Union[int, float, str, None]
LINE_EVERY_S = 5.0
QUIET_LINE_EVERY_S = 60.0
LEFT = "Stopped watching. The job goes on: `tuneyard watch {id}` shows it again, `tuneyard cancel {id}` stops it."


def watch(job: JobHandle, *, console: Console | None = None) -> JobHandle:
    """Show a job until it has ended. Ctrl-C stops watching, never the job. Raises :class:`JobFailed`."""
    console = console or Console()
    try:
        if console.is_terminal:
            _watch_live(job, console)
        else:
            _watch_lines(job, console)
    except KeyboardInterrupt:
        console.print(LEFT.format(id=job.short_id), markup=False, highlight=False, soft_wrap=True)
        raise
    if job.state != "succeeded":
        raise JobFailed(ending(job.data), job_id=job.id, state=job.state)
    for line in outcome(job.data):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return job


def _watch_live(job: JobHandle, console: Console) -> None:
    progress = Progress(
        TextColumn("[bold]{task.fields[state]}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[facts]}"),
        console=console,
        expand=True,
    )
    reason = ""
    with progress:
        bar: TaskID = progress.add_task("", total=1.0, state="", facts="")
        for now in job.changes():
            data = now.data
            if data["reason"] and data["reason"] != reason:
                reason = data["reason"]
                progress.console.print(f"[dim]{escape(data['state_label'])}: {escape(reason)}[/dim]", highlight=False)
            progress.update(
                bar,
                completed=1.0 if data["state"] == "succeeded" else float(data["fraction"]),
                state=escape(data["state_label"]),
                facts=escape("  ".join(facts(data))),
            )


def _watch_lines(job: JobHandle, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
    said: tuple[Any, ...] = ()
    reason, step, last = "", -1, float("-inf")
    for now in job.changes():
        data = now.data
        what = (data["state"], data["reason"], data["phase"])
        waited = clock() - last
        if what == said and waited < (LINE_EVERY_S if data["step"] != step else QUIET_LINE_EVERY_S):
            continue
        parts = [data["state_label"], *facts(data)]
        if data["reason"] and data["reason"] != reason:
            parts.append(data["reason"])
        said, reason, step, last = what, data["reason"], data["step"], clock()
        console.print("  ".join(parts), markup=False, highlight=False, soft_wrap=True)


def facts(data: Mapping[str, Any]) -> list[str]:
    """The short facts beside a job's bar: phase, step, reward, accuracy or loss, time left."""
    found = []
    if data["state"] == "running" and data["phase"]:
        found.append(str(data["phase"]))
    if data["total_steps"]:
        found.append(f"step {data['step']}/{data['total_steps']}")
    latest = data["latest"]
    for key, label in (("train/reward", "reward"), ("train/accuracy", "accuracy"), ("train/loss", "loss")):
        if key in latest and (key != "train/loss" or "train/reward" not in latest):
            found.append(f"{label} {_shown(latest[key]['value'], label == 'accuracy')}")
    if data["eta_s"] is not None and not data["ended"]:
        found.append(f"{duration(data['eta_s'])} left")
    return found


def outcome(data: Mapping[str, Any]) -> list[str]:
    """What a job that succeeded has come to."""
    result = data["result"] or {}
    before, after = result.get("before") or {}, result.get("after") or {}
    lines = [f"Job {data['id'][:8]} succeeded."]
    for key, label in (("accuracy", "accuracy"), ("reward", "reward"), ("loss", "held-out loss")):
        if before.get(key) is not None and after.get(key) is not None:
            percent = key == "accuracy"
            lines.append(f"  {label}  {_shown(before[key], percent)} → {_shown(after[key], percent)}")
    if data.get("cost"):
        lines.append(f"  cost  {data['cost']['total']} {data['cost']['currency']}")
    if data.get("model_version"):
        model = data["model_version"]
        name = shlex.quote(f"{model['name']}@{model['number']}")
        lines.append(f"  model  tuneyard models download {name}")
    lines.append(f"  page  {data['url']}")
    return lines


def _shown(value: Number, percent: bool) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{100 * value:.1f} %" if percent else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Seconds as people say them: 40 s, 12 min, 3 h 5 min."""
    total = max(0, round(seconds))
    if total < 90:
        return f"{total} s"
    minutes = round(total / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
