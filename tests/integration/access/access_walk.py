"""Finding every address there is, asking one as a caller, and what an answer may not do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from access_table import UNSAFE, Caller, Entry, Verdict
from access_world import MARKER, World
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.urls import URLResolver, get_resolver, reverse

from gateway.rest.api import api

# Looking may note that a session or token is alive, and count what is limited; nothing else.
NOTES = re.compile(
    r"""
    ^\s*(insert\s+into|update|delete\s+from)\s+"(
        django_session | workspaces_ratebucket | usersessions_usersession
    )" | ^\s*update\s+"workspaces_apitoken"\s+set\s+"last_used_at"\s=\s[^,]*\s+where
    """,
    re.IGNORECASE | re.VERBOSE,
)
WRITES = re.compile(r"^\s*(with\b.*\b)?(insert|update|delete|truncate|merge|copy|alter|create|drop)\b", re.I | re.S)
PLACE = re.compile(r"\{(\w+_id)\}")
ARGUMENT = re.compile(r"<(?:(?P<kind>\w+):)?(?P<name>\w+)>")


def routes(resolver: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every address of the site as one text, and its view."""
    for pattern in (resolver or get_resolver()).url_patterns:
        route = prefix + str(pattern.pattern).replace("<uuidstr:", "<uuid:")
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, route)
        else:
            yield route, pattern.callback


def operations() -> set[tuple[str, str]]:
    """Method and address of every operation of the API, as its own description lists them."""
    paths = api.get_openapi_schema()["paths"]
    return {(method.upper(), path.removeprefix("/")) for path, methods in paths.items() for method in methods}


def plain(route: str) -> str:
    """The address as OpenAPI writes it."""
    return ARGUMENT.sub(lambda match: f"{{{match['name']}}}", route)


def address(entry: Entry, world: World) -> str:
    """A real address for the entry. Raises ``KeyError`` for an argument that the world has no value for."""
    values = world.objects | entry.args
    path = ARGUMENT.sub(lambda match: quote(str(values[match["name"]])), entry.route)
    query = entry.query.format(**values)
    return f"/{path}" + (f"?{query}" if query else "")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: str
    body: bytes
    written: list[str]
    location: str

    def is_a(self, verdict: Verdict) -> bool:
        """Whether this is the answer that the verdict names."""
        statuses = {Verdict.UNAUTHORIZED: 401, Verdict.FORBIDDEN: 403, Verdict.NOT_FOUND: 404, Verdict.SIGN_IN: 302}
        to_sign_in = self.location.startswith(reverse("sign-in"))
        if verdict is Verdict.PUBLIC:
            return self.status < 500 and self.status not in (401, 403, 404, 405)
        if verdict is Verdict.ALLOWED:
            return self.status < 500 and self.status not in (401, 403, 404, 405) and not to_sign_in
        return self.status == statuses[verdict] and to_sign_in == (verdict is Verdict.SIGN_IN)

    def shows(self, text: str) -> bool:
        return text.encode() in self.body or text in self.headers


def ask(world: World, entry: Entry, method: str, caller: Caller) -> Answer:
    """Send one request as this caller."""
    client = world.program_client(caller) if entry.for_programs else world.page_client(caller)
    options: dict[str, Any] = {}
    if method in UNSAFE:
        options = _body(entry, method, world)
    with watched() as written:
        response = getattr(client, method.lower())(address(entry, world), **options)
        body = _whole(response)
    headers = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    headers += "\n".join(morsel.OutputString() for morsel in response.cookies.values())
    return Answer(response.status_code, headers, body, written, response.headers.get("Location", ""))


def _whole(response: Any) -> bytes:
    if not response.streaming:
        return bytes(response.content)
    if not response.is_async:
        return b"".join(response.streaming_content)

    async def read() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    return async_to_sync(read)()


def _body(entry: Entry, method: str, world: World) -> dict[str, Any]:
    if entry.json is not None:
        return {"data": _filled(entry.json, world), "content_type": "application/json"}
    data = _filled(entry.form or {}, world)
    data = {k: SimpleUploadedFile("new.jsonl", v) if isinstance(v, bytes) else v for k, v in data.items()}
    return {"data": data} if method == "POST" else {"data": b"", "content_type": "application/x-www-form-urlencoded"}


def _filled(value: Any, world: World) -> Any:
    if isinstance(value, str):
        return PLACE.sub(lambda match: str(world.objects[match[1]]), value)
    if isinstance(value, dict):
        return {key: _filled(item, world) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, world) for item in value]
    return value


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collects the statements that change the database, but for what only notes that someone was there."""
    written: list[str] = []

    def note(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        text = str(sql)
        if WRITES.match(text) and not NOTES.match(text):
            written.append(text[:200])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield written


FOREIGN = re.compile(
    rb"""<(?:script|link|img|iframe|source|form)\b[^>]*\b(?:src|href|action)=["']?(?:https?:)?//""", re.I
)


def foreign_parts(answer: Answer) -> list[str]:
    """What a page would load from, or send to, anywhere but here."""
    return [f"loads {found.decode(errors='replace')}…" for found in FOREIGN.findall(answer.body)]


def hints(answer: Answer) -> list[str]:
    """What an answer to an outsider gives away."""
    return [f"shows {MARKER}"] if answer.shows(MARKER) else []
