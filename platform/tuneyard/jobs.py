"""Jobs: submit, look, wait, cancel."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneyard.catalog import Items, Json, pages
from tuneyard.errors import JobFailed, NotFound, TuneyardError

if TYPE_CHECKING:
    from tuneyard.client import Client

LONG_POLL_S = 20
SHORTEST_ID = 4


class Jobs:
    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(
        self,
        spec: Mapping[str, Any],
        *,
        reward: str | None = None,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> JobHandle:
        """Submit a task spec whose dataset is registered already; ``submit_to_platform`` uploads files first.

        ``reward`` names a registered reward (``reward:<id>@<version>``) in place of one inside the spec. Each call is
        a job of its own, unless it is given the ``idempotency_key`` of an earlier one: then it is that job. Repeats
        after a broken connection never make a second job. Raises :class:`InvalidRequest` with the path of each field
        that is wrong.
        """
        body: Json = {
            "project": self._client.project_id(project),
            "spec": dict(spec),
            "idempotency_key": idempotency_key or uuid.uuid4().hex,
        }
        if reward:
            body["reward"] = reward
        return JobHandle(self._client, self._client.http.call("POST", "/jobs", json=body))

    def get(self, job_id: str) -> JobHandle:
        """A job by its id or by the first characters of it (4 at least)."""
        return JobHandle(self._client, self._client.http.get(f"/jobs/{self.full_id(job_id)}"))

    def list(self, *, state: str | None = None, project: str | None = None, limit: int = 50) -> Items:
        """The newest jobs first. Without a project, of all projects the token reaches."""
        params: Json = {"state": state, "limit": min(limit, 200)}
        if project or self._client.project:
            params["project"] = self._client.project_id(project)
        return pages(self._client, "/jobs", params, at_most=limit)

    def cancel(self, job_id: str, reason: str = "") -> JobHandle:
        """Stop a job in whatever state it is. Doing it twice, or after its end, changes nothing."""
        return self.get(job_id).cancel(reason)

    def pause(self, job_id: str, reason: str = "") -> JobHandle:
        """Have a job write a checkpoint and give its devices back."""
        return self.get(job_id).pause(reason)

    def resume(
        self, job_id: str, *, amount: str | float | None = None, minutes: float | None = None, reason: str = ""
    ) -> JobHandle:
        """Queue a paused job again; ``amount`` and ``minutes`` are its new budget."""
        return self.get(job_id).resume(amount=amount, minutes=minutes, reason=reason)

    def events(self, job_id: str, *, after: str = "", state: str = "", wait: int = 0, limit: int = 1000) -> Json:
        """What happened after a cursor: ``{"cursor", "events", "state", "ended", "more"}``.

        ``wait`` lets the server hold the answer for up to 25 s until there is something, or until the job is in another
        state than ``state``.
        """
        params = {"after": after or None, "state": state or None, "wait": wait or None, "limit": limit}
        answer: Json = self._client.http.get(f"/jobs/{job_id}/events", params=params, timeout=wait + 30.0)
        return answer

    def wait(self, job_id: str, timeout: float | None = None) -> JobHandle:
        """Wait for a job's end; see :meth:`JobHandle.wait`."""
        return self.get(job_id).wait(timeout)

    def full_id(self, job_id: str) -> str:
        """The whole id for the beginning of one, sought among the newest 200 jobs."""
        text = job_id.strip().lower()
        try:
            return str(uuid.UUID(text))
        except ValueError:
            pass
        if len(text) < SHORTEST_ID:
            raise TuneyardError(f"{job_id!r} is too short for a job's id; give at least {SHORTEST_ID} characters.")
        items = pages(self._client, "/jobs", {"limit": 200}, at_most=200)
        found = [item["id"] for item in items if item["id"].startswith(text)]
        if len(found) > 1:
            raise TuneyardError(f"{len(found)} jobs begin with {job_id!r}; give more characters of the id.")
        if not found:
            raise NotFound(f"None of the newest 200 jobs begins with {job_id!r}; give the whole id.", status=404)
        return str(found[0])


class JobHandle:
    """One job. ``data`` is the server's answer as it was last fetched; :meth:`refresh` fetches it again."""

    def __init__(self, client: Client, data: Json) -> None:
        self._client = client
        self.data = data

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def short_id(self) -> str:
        return self.id[:8]

    @property
    def name(self) -> str:
        return str(self.data["name"])

    @property
    def url(self) -> str:
        """The job's page for a browser."""
        return str(self.data["url"])

    @property
    def state(self) -> str:
        return str(self.data["state"])

    @property
    def ended(self) -> bool:
        return bool(self.data["ended"])

    @property
    def result(self) -> Json | None:
        """What the evaluations before and after training gave; None until the job has succeeded."""
        result: Json | None = self.data["result"]
        return result

    def refresh(self) -> JobHandle:
        self.data = self._client.http.get(f"/jobs/{self.id}")
        return self

    def cancel(self, reason: str = "") -> JobHandle:
        self.data = self._client.http.call("POST", f"/jobs/{self.id}/cancel", json={"reason": reason})
        return self

    def pause(self, reason: str = "") -> JobHandle:
        """Have the job write a checkpoint and give its devices back. Doing it twice changes nothing."""
        self.data = self._client.http.call("POST", f"/jobs/{self.id}/pause", json={"reason": reason})
        return self

    def resume(self, *, amount: str | float | None = None, minutes: float | None = None, reason: str = "") -> JobHandle:
        """Queue a paused job again; it goes on from its newest checkpoint.

        ``amount`` and ``minutes`` are its new budget, needed where the old one is used up.
        """
        body: Json = {"reason": reason}
        if amount is not None:
            body["amount"] = str(amount)
        if minutes is not None:
            body["minutes"] = minutes
        self.data = self._client.http.call("POST", f"/jobs/{self.id}/resume", json=body)
        return self

    def attempts(self) -> Items:
        """What was tried: each run of the job, with its node, times, steps and outcome."""
        return list(self._client.http.get(f"/jobs/{self.id}/attempts")["items"])

    def checkpoints(self) -> Items:
        """The stored checkpoints, newest first."""
        return list(self._client.http.get(f"/jobs/{self.id}/checkpoints")["items"])

    def keep_checkpoint(self, checkpoint_id: str, kept: bool = True) -> Json:
        """Keep a checkpoint from being deleted for newer ones, or give it free."""
        address = f"/jobs/{self.id}/checkpoints/{checkpoint_id}/keep"
        answer: Json = self._client.http.call("POST", address, json={"kept": kept})
        return answer

    def changes(self, timeout: float | None = None) -> Iterator[JobHandle]:
        """The job now, and again whenever something happened, until it has ended.

        Raises ``TimeoutError`` when ``timeout`` seconds were not enough; the job goes on then.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self.refresh()
        yield self
        while not self.ended:
            left = LONG_POLL_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"Job {self.short_id} is still {self.state}; it goes on without this program.")
            cursor = self.data["cursor"]
            answer = self._client.jobs.events(
                self.id, after=cursor, state=self.state, wait=max(1, min(LONG_POLL_S, int(left))), limit=1
            )
            if answer["cursor"] != cursor or answer["state"] != self.state:
                self.refresh()
                yield self

    def wait(self, timeout: float | None = None, *, on_change: Callable[[JobHandle], None] | None = None) -> JobHandle:
        """Wait for the end; ``on_change`` is called with the job as it moves.

        Raises :class:`JobFailed` when it failed or was cancelled, and ``TimeoutError`` when ``timeout`` seconds were
        not enough; the job goes on then.
        """
        for _ in self.changes(timeout):
            if on_change is not None:
                on_change(self)
        if self.state != "succeeded":
            raise JobFailed(ending(self.data), job_id=self.id, state=self.state)
        return self

    def metrics(self, *keys: str) -> dict[str, list[list[Any]]]:
        """All points of the named metrics (of all, without names): ``{key: [[step, value, active_s, tokens], ...]}``.

        A value that is no number is the text ``NaN``, ``Infinity`` or ``-Infinity``.
        """
        params = {"keys": ",".join(keys) or None}
        answer: Json = self._client.http.get(f"/jobs/{self.id}/metrics", params=params)
        return dict(answer["metrics"])

    def logs(self, lines: int = 200) -> Items:
        """The newest log lines, oldest first: ``{"t", "level", "text", "attempt", "seq"}``."""
        answer: Json = self._client.http.get(f"/jobs/{self.id}/logs", params={"lines": lines})
        return list(answer["items"])

    def download_model(self, target: str | PathLike[str] | None = None, *, format: str = "adapter") -> Path:
        """Fetch the trained model into a new folder and return it; see ``client.models.download``."""
        model = self.refresh().data["model_version"]
        if model is None:
            raise TuneyardError(f"Job {self.short_id} is {self.state} and has no model.")
        return self._client.models.download(model["id"], target, format=format)

    def __repr__(self) -> str:
        return f"<JobHandle {self.short_id} {self.name!r} {self.state} {self.url}>"


def ending(data: Mapping[str, Any]) -> str:
    """Why a job ended, in a sentence or two."""
    reason = str(data.get("reason") or "").strip()
    advice = str(data.get("advice") or "").strip()
    head = f"Job {str(data['id'])[:8]} {'was cancelled' if data['state'] == 'cancelled' else data['state']}"
    return " ".join(part for part in (f"{head}: {reason}" if reason else f"{head}.", advice) if part)
