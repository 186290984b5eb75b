"""Every refusal has one shape, and none shows more than the person who asked may know."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as InputError

from catalog.services import DatasetRefused, RewardRefused
from gateway.rest.body import BadBody
from jobs.states import TransitionError
from trainers.spec import SpecError
from trainers.storage import StorageError
from workspaces.errors import Refused

logger = logging.getLogger(__name__)

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    416: "out_of_range",
    422: "invalid",
    429: "rate_limited",
    500: "internal",
    503: "unavailable",
}
LONGEST_MESSAGE = 2000
PROBLEMS_SHOWN = 20
NO_TOKEN = (
    "This needs a token: send `Authorization: Bearer tml-…` (or `X-API-Key`). Make one on the page 'API tokens'; "
    "if you sent one, it is wrong, expired or revoked."
)


class RestError(Exception):
    """A refusal that an endpoint states itself."""

    def __init__(
        self, status: int, message: str, *, fields: Sequence[tuple[str, str]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.fields = fields
        self.retry_after = retry_after


def request_id(request: HttpRequest) -> str:
    """A short name for this request, in the answer and in the log."""
    known = getattr(request, "tuneyard_request_id", None)
    if known is None:
        known = secrets.token_hex(8)
        request.tuneyard_request_id = known  # type: ignore[attr-defined]
    return str(known)


def refusal(
    request: HttpRequest,
    status: int,
    message: str,
    *,
    fields: Sequence[tuple[str, str]] = (),
    code: str | None = None,
    retry_after: int | None = None,
) -> HttpResponse:
    """``{"error": {"code", "message", "fields": [{"path", "message"}], "request_id"}}`` with its status."""
    error = {
        "code": code or CODES.get(status, "error"),
        "message": message[:LONGEST_MESSAGE],
        "fields": [{"path": path, "message": text[:LONGEST_MESSAGE]} for path, text in fields],
        "request_id": request_id(request),
    }
    response = JsonResponse({"error": error}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="tuneyard"'
    if retry_after is not None:
        response["Retry-After"] = str(retry_after)
    return response


def install(api: NinjaAPI) -> None:
    """Give every kind of exception its answer."""
    handlers: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
        Exception: unforeseen,
        RestError: lambda request, error: refusal(
            request, error.status, error.message, fields=error.fields, retry_after=error.retry_after
        ),
        AuthenticationError: lambda request, error: refusal(request, 401, NO_TOKEN),
        HttpError: _http_error,
        Http404: _not_found,
        PermissionDenied: lambda request, error: refusal(request, 403, str(error) or "Your role does not allow this."),
        InputError: _input_error,
        SpecError: lambda request, error: refusal(
            request, 422, "The task cannot be run as it is described.", fields=error.errors
        ),
        Refused: lambda request, error: refusal(
            request, 422, error.message, fields=[(error.field, error.message)] if error.field else []
        ),
        RewardRefused: lambda request, error: refusal(
            request,
            422,
            "The reward cannot be used as it is described.",
            fields=[(f"spec.{path}" if path else "spec", text) for path, text in error.errors],
        ),
        DatasetRefused: _dataset_refused,
        ValidationError: lambda request, error: refusal(request, 422, " ".join(error.messages)),
        TransitionError: lambda request, error: refusal(request, 409, f"{str(error)[:1].upper()}{str(error)[1:]}."),
        BadBody: lambda request, error: refusal(request, 400, str(error)),
        RequestDataTooBig: lambda request, error: refusal(
            request, 413, "The body is larger than this address accepts; rows belong into a dataset."
        ),
        SuspiciousOperation: lambda request, error: refusal(request, 400, "The request is malformed."),
        BadRequest: lambda request, error: refusal(request, 400, "The request is malformed."),
        MultiPartParserError: lambda request, error: refusal(request, 400, f"The form data is malformed: {error}."),
        UnreadablePostError: lambda request, error: refusal(request, 400, "The body broke off before its end."),
        StorageError: _storage,
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)


def _dataset_refused(request: HttpRequest, error: DatasetRefused) -> HttpResponse:
    problems = [item for item in error.report.problems if item.severity == "error"][:PROBLEMS_SHOWN]
    fields = [("file", f"line {item.line}: {item.message}" if item.line else item.message) for item in problems]
    return refusal(request, 422, error.message, fields=fields or [("file", error.message)])


def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    cause = error.__cause__
    if isinstance(cause, BadBody):
        return refusal(request, 400, str(cause))
    if isinstance(cause, RequestDataTooBig):
        return refusal(request, 413, "The body is larger than this address accepts; rows belong into a dataset.")
    if error.status_code == 400:
        return refusal(request, 400, "The body cannot be read; send JSON.")
    return refusal(request, error.status_code, str(error))


def _not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    return refusal(request, 404, str(error) or "There is no such thing, or it is not yours to see.")


def _input_error(request: HttpRequest, error: InputError) -> HttpResponse:
    fields = []
    for item in error.errors:
        # The first part says where the value came from (query, body ...), the second, for a body, ninja's own name.
        source, *path = [str(part) for part in item["loc"]]
        if source in ("body", "form", "file") and len(path) > 1 and path[0] in ("body", "form"):
            path = path[1:]
        message = str(item["msg"])
        fields.append((".".join(path) or source, message[:1].lower() + message[1:]))
    return refusal(request, 422, "The request does not fit.", fields=fields)


def _storage(request: HttpRequest, error: StorageError) -> HttpResponse:
    logger.error("request %s: storage: %s", request_id(request), error)
    if error.kind == "missing":
        return refusal(request, 404, "The file is no longer in storage.")
    return refusal(request, 503, "Storage cannot do this at the moment; try again, or tell the people who run it.")


def unforeseen(request: HttpRequest, error: Exception) -> HttpResponse:
    """500 with a name under which the log has the whole story."""
    name = request_id(request)
    logger.error("request %s failed: %s %s", name, request.method, request.path, exc_info=error)
    return refusal(
        request, 500, f"The server failed at this request; the people who run it find it in the log as {name}."
    )
