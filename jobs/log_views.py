"""The log of a job, window by window, searched, and as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from jobs.views import job_of
from records import log_pages
from records.log_pages import HITS, Key, Lines, SearchProblem
from workspaces.models import Project
from workspaces.scope import ProjectRequest, in_project

LONGEST_TEXT = 500


@require_safe
@in_project()
def job_log_lines(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponse:
    """A window of lines as JSON: ``before``, ``after``, ``around`` a key (``1:250``) or ``at`` a time (unix seconds).

    Without any of them the newest; ``q`` gives hits instead, ``regex=1`` reads it as a regular expression.
    """
    subject, query = ("job", job_of(request, job_id).pk), request.GET
    try:
        lines = _lines(query)
        keys = {name: _key(query[name]) for name in ("before", "after", "around") if query.get(name)}
        moment = _moment(query["at"]) if query.get("at") else None
    except ValueError as error:
        return JsonResponse({"error": str(error)}, status=400)
    target: Key | None = None
    found: list[list[Any]]
    more = False
    if lines.text:
        try:
            found = log_pages.search(subject, lines, keys.get("before"))
        except SearchProblem as problem:
            return JsonResponse({"error": str(problem)}, status=400)
        more = len(found) == HITS
    elif moment is not None or "around" in keys:
        target = keys.get("around") or (log_pages.key_at(subject, moment) if moment else None)
        found = log_pages.window_around(subject, lines, target) if target else []
    elif "after" in keys:
        found = log_pages.window_after(subject, lines, keys["after"])
    else:
        found = log_pages.window_before(subject, lines, keys.get("before"))
    answer = {"lines": found, "target": target, "more": more, "attempts": log_pages.attempts_of(subject)}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


@require_safe
@in_project()
def job_log(request: ProjectRequest, project: Project, job_id: UUID) -> HttpResponseBase:
    """The log as a text file, whole or what passes the filters; read and sent line by line."""
    job = job_of(request, job_id)
    try:
        lines = _lines(request.GET)
    except ValueError as error:
        return HttpResponse(str(error), status=400, content_type="text/plain; charset=utf-8")
    if lines.text and lines.regex:
        try:
            with log_pages.bounded():
                lines.of(("job", job.pk)).exists()
        except SearchProblem as problem:
            return HttpResponse(str(problem), status=400, content_type="text/plain; charset=utf-8")
    rows = lines.of(("job", job.pk)).order_by("attempt", "seq")

    async def written() -> AsyncIterator[str]:
        async for row in rows.aiterator(chunk_size=2000):
            yield f"{row.at.isoformat()} attempt {row.attempt} {row.level.upper()} {row.text}\n"

    return StreamingHttpResponse(
        written(),
        content_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": content_disposition_header(True, f"{job.name}.log") or "",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _lines(query: Mapping[str, str]) -> Lines:
    attempt = query.get("attempt", "")
    if attempt and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise ValueError("attempt must be a number")
    text = query.get("q", "").replace("\x00", "")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"q has at most {LONGEST_TEXT} characters")
    return Lines(query.get("level", ""), int(attempt) if attempt else None, text, query.get("regex") == "1")


def _key(text: str) -> Key:
    attempt, _, seq = text.partition(":")
    if not (attempt.isdecimal() and seq.isdecimal() and len(attempt) < 10 and len(seq) < 19):
        raise ValueError("a key is an attempt and a number, as 1:250")
    return int(attempt), int(seq)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError("at is a time in seconds since 1970") from None
