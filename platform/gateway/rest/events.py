"""/jobs/{id}/events: what happened after a cursor, waiting for it where nothing has."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from gateway.rest.auth import caller
from gateway.rest.errors import RestError
from gateway.rest.job_views import newest_cursor
from gateway.rest.jobs import visible_job
from gateway.rest.schemas import EventsOut, refusals
from jobs.selectors import updates_after
from jobs.states import TERMINAL
from workspaces.models import User

router = Router(tags=["jobs"])
LONGEST_WAIT_S = 25
LOOK_EVERY_S = 0.7


@router.get(
    "/jobs/{uuid:job_id}/events",
    response={200: EventsOut, **refusals(404)},
    summary="What happened after a cursor; waits for news when asked to",
    operation_id="job_events",
)
async def job_events(
    request: HttpRequest,
    job_id: UUID,
    after: Annotated[str | None, Field(max_length=40, description="`cursor` of the answer before.")] = None,
    state: Annotated[str | None, Field(max_length=20, description="The state you know: another one is news.")] = None,
    wait: Annotated[int, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for news.")] = 0,
    limit: Annotated[int, Field(ge=1, le=5000, description="Journal events per answer.")] = 1000,
) -> dict[str, Any]:
    user = caller(request)
    deadline = time.monotonic() + wait
    while True:
        answer = await sync_to_async(_look)(user, job_id, after, state, limit, time.monotonic() < deadline)
        if answer is not None:
            return answer
        await asyncio.sleep(min(LOOK_EVERY_S, max(0.0, deadline - time.monotonic())))


def _look(
    user: User, job_id: UUID, after: str | None, state: str | None, limit: int, patient: bool
) -> dict[str, Any] | None:
    """The answer, or None while there is no news and time to wait for some. Rights are looked up each time."""
    try:
        job = visible_job(user, job_id)
        news = job.state in TERMINAL or newest_cursor(job) != after or (state is not None and job.state != state)
        if patient and not news:
            return None
        try:
            updates = updates_after(job, after or None, limit)
        except ValueError as error:
            raise RestError(422, "The request does not fit.", fields=[("after", str(error))]) from None
        return {
            "cursor": updates["cursor"],
            "more": updates["more"],
            "state": job.state,
            "ended": job.state in TERMINAL,
            "events": _events(updates),
            "timeline": [
                {**entry, "from_state": entry["from"], "to_state": entry["to"]} for entry in updates["timeline"]
            ],
        }
    finally:
        # A waiting request must not hold a database connection, or a hundred watchers would hold them all.
        if patient and not connection.in_atomic_block:
            connection.close()


def _events(updates: dict[str, Any]) -> list[dict[str, Any]]:
    """Points and lines in the order of the journal; the points of one event together."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for key, points in updates["metrics"].items():
        for attempt, seq, step, value, t, _active_s, _tokens in points:
            event = found.setdefault(
                (attempt, seq), {"attempt": attempt, "seq": seq, "t": t, "kind": "metric", "step": step, "values": {}}
            )
            event["values"][key] = value
    for attempt, seq, t, level, text in updates["log"]:
        found[attempt, seq] = {"attempt": attempt, "seq": seq, "t": t, "kind": "log", "level": level, "text": text}
    return [found[place] for place in sorted(found)]
