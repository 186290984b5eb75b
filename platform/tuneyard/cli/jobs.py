"""jobs, watch, logs, pause, resume, cancel."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone

from tuneyard.cli.show import as_json, client_of, say, table
from tuneyard.client import Client
from tuneyard.errors import NotFound
from tuneyard.jobs import JobHandle


def jobs(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.jobs.list(state=arguments.state, limit=max(1, arguments.limit))
    if arguments.json:
        as_json(found)
        return
    rows = (
        [
            item["id"][:8],
            item["name"],
            item["state"],
            f"{item['step']}/{item['total_steps']}" if item["total_steps"] else "",
            item["created_at"][:16].replace("T", " "),
            item["project"]["name"],
        ]
        for item in found
    )
    table(["job", "name", "state", "step", "submitted (UTC)", "project"], rows, "No job yet: `tuneyard submit --help`.")


def _job(client: Client, text: str | None) -> JobHandle:
    if text:
        return client.jobs.get(text)
    newest = client.jobs.list(limit=1)
    if not newest:
        raise NotFound("There is no job yet.", status=404)
    return client.jobs.get(newest[0]["id"])


def watch(arguments: argparse.Namespace) -> None:
    from tuneyard.watch import watch as show

    with client_of(arguments) as client:
        job = _job(client, arguments.job)
        say(f"Job {job.short_id} “{job.name}”: {job.url}")
        show(job)


def logs(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        lines = _job(client, arguments.job).logs(max(1, arguments.lines))
    if arguments.json:
        as_json(lines)
        return
    for line in lines:
        at = datetime.fromtimestamp(line["t"], tz=timezone.utc)
        say(f"{at:%Y-%m-%d %H:%M:%S} {line['level']:<7} {line['text']}")


def cancel(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        before = client.jobs.get(arguments.job)
        if before.ended:
            say(f"Job {before.short_id} has ended already: {before.state}.")
            return
        after = before.cancel(arguments.reason)
        say(f"Job {after.short_id} “{after.name}” is {after.state}.")


def pause(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        job = client.jobs.pause(arguments.job, arguments.reason)
        say(f"Job {job.short_id} “{job.name}” is {job.state}; `tuneyard resume {job.short_id}` takes it up again.")


def resume(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        job = client.jobs.resume(
            arguments.job, amount=arguments.amount, minutes=arguments.minutes, reason=arguments.reason
        )
        say(f"Job {job.short_id} “{job.name}” is {job.state}. {job.data['reason']}")
