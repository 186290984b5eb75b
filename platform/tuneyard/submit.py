"""``submit_to_platform``: from a task on this machine to a job on the server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneyard.client import Client
from tuneyard.errors import TaskError
from tuneyard.jobs import JobHandle
from tuneyard.task import DATASET, RLTask


def submit_to_platform(
    task: RLTask,
    *,
    client: Client | None = None,
    wait: bool = False,
    quiet: bool = False,
    idempotency_key: str | None = None,
) -> JobHandle:
    """Upload the task's data where it is a local file, submit the task, and say where to look.

    Each call makes one job, however often the connection breaks meanwhile. With ``wait`` it shows the progress and
    returns at the end, raising :class:`JobFailed` when there is no model. The job never depends on this program: it
    goes on when the program ends. Raises :class:`TaskError` or :class:`InvalidRequest` naming the fields that are
    wrong.
    """
    if not isinstance(task, RLTask):
        raise TaskError("task", f"must be an RLTask, not {type(task).__name__}")
    own = client is None
    client = client or Client()
    say = _silent if quiet else _say
    try:
        job = submit(client, task, say=say, idempotency_key=idempotency_key)
        announce(job, say)
        if wait:
            if quiet:
                job.wait()
            else:
                from tuneyard.watch import watch

                watch(job)
        return job
    finally:
        if own and wait:
            client.close()


def submit(
    client: Client,
    task: RLTask,
    *,
    say: Callable[[str], None],
    idempotency_key: str | None = None,
    folder: Path | None = None,
) -> JobHandle:
    """Upload what is local (paths are relative to ``folder``), then submit."""
    registered, rows = _registered(client, task.source, task.columns, say, folder)
    spec = task.to_spec(rows=rows)
    spec["data"]["source"] = registered
    return submit_spec(
        client, spec, reward=task.registered_reward, say=say, idempotency_key=idempotency_key, folder=folder
    )


def submit_spec(
    client: Client,
    spec: dict[str, Any],
    *,
    say: Callable[[str], None],
    reward: str | None = None,
    idempotency_key: str | None = None,
    folder: Path | None = None,
) -> JobHandle:
    """Submit a whole task spec, uploading the files it names as data first."""
    spec = {**spec}
    for section in ("data", "evaluation"):
        part = spec.get(section)
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, str) and source.strip():
            columns = spec["data"].get("columns") if isinstance(spec.get("data"), dict) else None
            spec[section] = {**spec[section], "source": _registered(client, source, columns, say, folder)[0]}
    return client.jobs.submit(spec, reward=reward, idempotency_key=idempotency_key or uuid.uuid4().hex)


def _registered(
    client: Client, source: str, columns: Any, say: Callable[[str], None], folder: Path | None
) -> tuple[str, int | None]:
    """The registered name of a dataset, and its usable rows where they are known."""
    if source.startswith(DATASET):
        return source, _rows(client, source)
    path = Path(source).expanduser()
    # What is no set of columns is refused with the task, by its path.
    named = columns if isinstance(columns, dict) and all(isinstance(name, str) for name in columns.values()) else None
    version = client.datasets.upload(path if folder is None else folder / path, columns=named)
    what = "uploaded" if version["uploaded"] else "already on the server"
    say(f"{path.name}: {what}, {version['usable_rows']:,} of {version['rows']:,} rows can be used.")
    return str(version["source"]), int(version["usable_rows"])


def _rows(client: Client, source: str) -> int | None:
    dataset_id, _, number = source[len(DATASET) :].partition("@")
    if not dataset_id or not number.isdigit() or not all(char in "0123456789abcdefABCDEF-" for char in dataset_id):
        return None  # the server says what is wrong with it
    for version in client.datasets.get(dataset_id)["versions"]:
        if version["number"] == int(number):
            return int(version["usable_rows"])
    return None


def announce(job: JobHandle, say: Callable[[str], None]) -> None:
    """Where to look, how to watch, how to stop."""
    say(f"Job {job.short_id} “{job.name}” is {job.state}: {job.url}")
    say(f"  watch it    tuneyard watch {job.short_id}")
    say(f"  stop it     tuneyard cancel {job.short_id}")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _silent(line: str) -> None:
    pass
