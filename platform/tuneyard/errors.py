"""What can go wrong, as exceptions whose text says which field or setting it is about and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class TuneyardError(Exception):
    """The base of every error of this package."""


class ConfigurationError(TuneyardError):
    """The address of the server, the token or the project is not known or not usable."""


class TaskError(TuneyardError, ValueError):
    """A task that cannot be described as it was written; ``field`` is the argument (``hyperparams.lr``)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class ConnectionFailed(TuneyardError):
    """The server could not be reached, or the connection broke and repeating did not help."""


class DownloadError(TuneyardError):
    """A file could not be fetched whole; nothing half-written is left."""


class JobFailed(TuneyardError):
    """A job that was waited for ended without a model; ``state`` is ``failed`` or ``cancelled``."""

    def __init__(self, message: str, *, job_id: str, state: str) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.state = state


class ApiError(TuneyardError):
    """The server refused a request.

    ``status`` is the HTTP status, ``code`` the server's name of the error, ``fields`` a list of ``(path, message)``,
    and ``request_id`` what to quote when asking the people who run the server.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        fields: Sequence[tuple[str, str]] = (),
        request_id: str = "",
    ) -> None:
        self.message = message
        self.status = status
        self.code = code
        self.fields = list(fields)
        self.request_id = request_id
        super().__init__("\n".join([message, *(f"  {path or 'task'}: {text}" for path, text in self.fields)]))


class AuthenticationError(ApiError):
    """The token is missing, wrong, expired or revoked (401)."""


class PermissionDenied(ApiError):
    """The token's role does not allow this (403)."""


class NotFound(ApiError):
    """There is no such object, or it is not visible to this token (404)."""


class Conflict(ApiError):
    """The object is not in a state that allows this (409)."""


class InvalidRequest(ApiError):
    """Something in the request is wrong; ``fields`` names each part (400, 413, 422)."""


class RateLimited(ApiError):
    """Too many requests, and waiting did not help (429)."""


class ServerError(ApiError):
    """The server failed, or something that is no Tuneyard server answered (5xx)."""


def api_error(
    message: str, *, status: int, code: str = "", fields: Sequence[tuple[str, str]] = (), request_id: str = ""
) -> ApiError:
    """The exception for an HTTP status."""
    kinds = {
        400: InvalidRequest,
        401: AuthenticationError,
        403: PermissionDenied,
        404: NotFound,
        409: Conflict,
        413: InvalidRequest,
        422: InvalidRequest,
        429: RateLimited,
    }
    kind = kinds.get(status, ServerError if status >= 500 else ApiError)
    return kind(message, status=status, code=code, fields=fields, request_id=request_id)
