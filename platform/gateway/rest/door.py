"""What surrounds every address of the API: no sign-in page, no HTML, a name for each request."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from gateway.rest.errors import refusal, request_id, unforeseen

View = Callable[..., Any]


def patterns(api: NinjaAPI) -> list[URLPattern | URLResolver]:
    """The addresses of an API, each view behind this door."""
    found = api.urls[0]
    for pattern in found:
        if isinstance(pattern, URLPattern):
            view: View = pattern.callback
            if pattern.name in ("openapi-json", "openapi-view"):
                view = require_safe(view)
            # The root has a name, from which the schema takes its prefix, and nothing to show.
            pattern.callback = no_such_address if pattern.name == "api-root" else guarded(view)
    return found


def guarded(view: View) -> View:
    """The view for callers with tokens: sessions and their CSRF check play no part, and refusals are JSON."""
    wrapped: View
    if iscoroutinefunction(view):

        @functools.wraps(view)
        async def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                response = await view(request, *args, **kwargs)
            except Exception as error:
                response = unforeseen(request, error)
            return _named(request, response)

    else:

        @functools.wraps(view)
        def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                response = view(request, *args, **kwargs)
            except Exception as error:
                response = unforeseen(request, error)
            return _named(request, response)

    return login_not_required(csrf_exempt(wrapped))


def _named(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if isinstance(response, HttpResponseNotAllowed):
        allowed = response["Allow"]
        response = refusal(request, 405, f"{request.method} is not possible here; possible is {allowed}.")
        response["Allow"] = allowed
    response["X-Request-ID"] = request_id(request)
    response.setdefault("Cache-Control", "no-store")
    return response


@login_not_required
@csrf_exempt
def no_such_address(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """404 in the API's own shape for everything below /api/ that is not there."""
    return _named(request, refusal(request, 404, "There is no such address; /api/docs lists them."))
