"""Is this web process alive, and can it serve: for the launcher, proxies and orchestrators."""

from __future__ import annotations

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse


class HealthMiddleware:
    """Answers ``/livez`` (this process runs) and ``/readyz`` (database and broker answer; 503 names what does not).

    First in line and without a URL: who asks by a bare address, as orchestrators do, must not fail the host check, need
    a sign-in or make a session.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path == "/livez" and request.method in ("GET", "HEAD"):
            return HttpResponse("ok\n", content_type="text/plain")
        if request.path == "/readyz" and request.method in ("GET", "HEAD"):
            return readiness()
        return self.get_response(request)


def readiness() -> JsonResponse:
    parts = {"database": _database(), "broker": _broker()}
    ready = all(state == "ok" for state in parts.values())
    return JsonResponse(parts, status=200 if ready else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "does not answer"
    return "ok"


def _broker() -> str:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except (redis.RedisError, OSError):
        return "does not answer"
    return "ok"
