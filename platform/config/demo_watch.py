"""The demo in the terminal: who to sign in as, a progress bar with what is learned, and the result."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db import OperationalError, close_old_connections
from django.urls import reverse
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from billing.selectors import cost_of
from jobs import demo
from jobs.models import Job
from jobs.states import TABLE, TERMINAL, State
from records.selectors import latest_values
from trainers.storage import Storage

LOOK_EVERY_S = 0.5
EARLIER_SHOWN = 5
SHOWN = {"train/reward": "reward", "train/accuracy": "accuracy", "eval/accuracy": "held out"}


def run() -> int:
    """Submit the demo job and follow it to its end; 0 when it succeeded."""
    console = Console(highlight=False, soft_wrap=True)
    who = demo.sign_in(settings.HOME / "demo.json")
    greet(console, who)
    job = demo.submit(project=who.project, user=who.user)
    console.print(f"Submitted “{job.name}”: {url(job)}\n")
    job = follow(console, job)
    report(console, job)
    return 0 if job.state == State.SUCCEEDED else 1


def greet(console: Console, who: demo.SignIn) -> None:
    password = who.password or "the one you chose"
    console.print(f"\nSign in at [bold]{settings.PUBLIC_URL}[/]")
    console.print(f"    as [bold]{demo.EMAIL}[/]  password [bold]{password}[/]")
    earlier = Job.objects.filter(project=who.project).order_by("-created_at")
    if count := earlier.count():
        console.print(f"{count} earlier job{'s' if count > 1 else ''} in this project:")
    for job in earlier[:EARLIER_SHOWN]:
        state = TABLE[State(job.state)].label
        console.print(f"    {job.created_at:%Y-%m-%d %H:%M}  {state:<10} {job.name}  {url(job)}")


def follow(console: Console, job: Job) -> Job:
    """Show the job's progress until it ends: a bar on a terminal, else a line for each step."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[values]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        disable=not console.is_terminal,
    )
    said: tuple[Any, ...] = ()
    with bar:
        task = bar.add_task("", total=1.0, values="", left="")
        while True:
            try:
                close_old_connections()
                job.refresh_from_db()
                values = shown_values(job)
            except OperationalError:
                time.sleep(LOOK_EVERY_S)
                continue
            words = describe(job)
            bar.update(task, completed=job.fraction, description=words, values=values, left=remaining(job))
            if bar.disable and (words, values) != said:
                console.print(f"{words}  {values}".rstrip())
                said = (words, values)
            if job.state in TERMINAL:
                return job
            time.sleep(LOOK_EVERY_S)


def describe(job: Job) -> str:
    if job.state != State.RUNNING:
        return TABLE[State(job.state)].label
    step = f"step {job.step}/{job.total_steps}" if job.total_steps else f"step {job.step}"
    return f"{job.phase or 'running'}, {step}"


def shown_values(job: Job) -> str:
    latest = latest_values(("job", job.pk))
    found = []
    for key, name in SHOWN.items():
        value = latest.get(key, {}).get("value")
        if isinstance(value, float):
            found.append(f"{name} {value:.2f}" if name == "reward" else f"{name} {value:.0%}")
    return "  ".join(found)


def remaining(job: Job) -> str:
    return f"about {duration(job.eta_s)} left" if job.eta_s is not None and job.state == State.RUNNING else ""


def report(console: Console, job: Job) -> None:
    """What came of it; every figure is from the job's own record."""
    if job.state != State.SUCCEEDED or not job.result:
        console.print(f"\n[red]The job {TABLE[State(job.state)].label.lower()}.[/] {job.reason} {job.advice}".rstrip())
        console.print(f"More at {url(job)}; Ctrl-C stops everything.")
        return
    result = job.result
    prompts = result.get("eval_prompts", 0)
    console.print(f"\n[bold]Accuracy on {prompts} held-out prompts[/] (their pairs of numbers were not trained on)")
    table = Table("", "before", "after", box=None, pad_edge=False)
    rows = (
        ("accuracy", f"at temperature 1, {result['after'].get('samples', 0)} samples"),
        ("accuracy_greedy", "greedy"),
    )
    for key, name in rows:
        table.add_row(name, percent(result["before"], key), percent(result["after"], key))
    console.print(table)
    cost = cost_of("job", job.pk)
    console.print(
        f"Training   {duration(result['train_seconds'])} for {result['steps']} steps and {result['tokens']:,} tokens"
    )
    console.print(f"Cost       {cost.total:.4f} {cost.currency}")
    version = job.model_version
    if version is not None:
        console.print(f"Model      {version}: {folder(version.checkpoint.uri)}")
    if job.report_key:
        console.print(f"Report     {settings.PUBLIC_URL}{reverse('job-report', args=[job.project_id, job.pk])}")
    console.print(f"Base       {job.base_model.title}: {job.base_model.origin}")
    console.print(f"\nThe site goes on at {settings.PUBLIC_URL}; Ctrl-C stops everything.")


def folder(uri: str) -> str:
    """Where a checkpoint's files are: a path on this machine, or the address in storage."""
    address = uri if "://" in uri else Storage(settings.STORAGE_URL).uri(uri)
    return address.removeprefix("file://")


def percent(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    return f"{value:.1%}" if isinstance(value, int | float) else "–"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def url(job: Job) -> str:
    return f"{settings.PUBLIC_URL}{reverse('job', args=[job.project_id, job.pk])}"
