"""HTTP to the server: the token, repeats with back-off, and answers turned into errors a person can act on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from tuneyard import __version__
from tuneyard.errors import ApiError, ConnectionFailed, ServerError, api_error
from tuneyard.settings import Connection, is_loopback

API = "/api/v1"
TRIES = 7
TRIES_AFTER_FAILURE = 3
LONGEST_PAUSE_S = 20.0
REPEATABLE = frozenset({429, 500, 502, 503, 504})


class Http:
    """Requests to one server with one token. Safe to use from many threads."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = connection.url
        self._sleep = sleep
        self._client = httpx.Client(
            base_url=connection.url,
            headers={"Authorization": f"Bearer {connection.token}", "User-Agent": f"tuneyard/{__version__}"},
            timeout=httpx.Timeout(timeout, connect=10.0),
            # A proxy of the environment is for the outside world; it could not reach this machine's loopback.
            trust_env=not is_loopback(connection.url),
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """The JSON answer of a GET; ``params`` that are None are left out."""
        return self.call("GET", path, params=params, timeout=timeout)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        timeout: float | None = None,
        repeat: bool = True,
    ) -> Any:
        """One request and its JSON answer.

        ``repeat`` says that the request may be sent again when it is not known whether it arrived: true for reads and
        for writes the server recognizes. Raises :class:`ApiError` or :class:`ConnectionFailed`.
        """
        options: dict[str, Any] = {"params": _given(params)}
        if json is not None:
            options["json"] = json
        if timeout is not None:
            options["timeout"] = timeout
        response = self._repeated(lambda: self._client.request(method, f"{API}{path}", **options), repeat)
        return _json(response)

    def upload(self, path: str, *, fields: Mapping[str, str], file: tuple[str, Any], timeout: float = 600.0) -> Any:
        """Send one file as multipart; it is read in pieces while it is sent. Never repeated here."""
        response = self._repeated(
            lambda: self._client.post(f"{API}{path}", data=dict(fields), files={"file": file}, timeout=timeout),
            repeat=False,
        )
        return _json(response)

    @contextmanager
    def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None, offset: int = 0
    ) -> Iterator[httpx.Response]:
        """The open answer of a GET whose body is read piece by piece, from byte ``offset`` on. Not repeated here."""
        # Bytes as they are stored: compressed on the way, an offset would mean nothing.
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        try:
            with self._client.stream("GET", f"{API}{path}", params=_given(params), headers=headers) as response:
                if response.status_code not in (200, 206):
                    response.read()
                    raise _refusal(response)
                yield response
        except httpx.TransportError as error:
            raise ConnectionFailed(self._unreachable(error)) from error

    def _repeated(self, send: Callable[[], httpx.Response], repeat: bool) -> httpx.Response:
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                response = send()
            except httpx.TransportError as error:
                # A connection that was never made carried nothing, so that repeating is always safe.
                if last or not (repeat or isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))):
                    raise ConnectionFailed(self._unreachable(error)) from error
                self._sleep(pause(attempt))
                continue
            except httpx.InvalidURL as error:
                raise ConnectionFailed(f"{self.url} cannot be called: {error}.") from error
            refused_before_work = response.status_code == 429
            # A failure inside the server is worth a second look; more of them would only keep a person waiting.
            broken = response.status_code == 500 and attempt >= TRIES_AFTER_FAILURE - 1
            if last or broken or response.status_code not in REPEATABLE or not (repeat or refused_before_work):
                return response
            self._sleep(pause(attempt, response.headers.get("Retry-After", "")))
        raise AssertionError("unreachable")

    def _unreachable(self, error: httpx.TransportError) -> str:
        what = "does not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
        return f"{self.url} {what} ({error or type(error).__name__}). Is the server up, and is the address right?"


def pause(attempt: int, retry_after: str = "") -> float:
    """Seconds to wait before the next try: what the server asked for, else doubling with jitter, never over 20 s."""
    if retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_S)
    return random.uniform(0.5, 1.0) * min(0.5 * 2.0**attempt, LONGEST_PAUSE_S)


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (params or {}).items() if value is not None}


def _json(response: httpx.Response) -> Any:
    if response.status_code >= 300 or response.status_code < 200:
        raise _refusal(response)
    if response.status_code == 204 or not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise _not_ours(response) from None


def _refusal(response: httpx.Response) -> ApiError:
    """The error that an answer carries, in the server's one shape or, from something in between, without it."""
    status = response.status_code
    if response.is_redirect:
        return ServerError(
            f"{response.url} redirects to {response.headers.get('Location', 'nowhere')}; log in with that address.",
            status=status,
        )
    try:
        body = response.json()["error"]
        message = str(body["message"])
    except (ValueError, KeyError, TypeError):
        return _not_ours(response)
    fields = [
        (str(item.get("path", "")), str(item.get("message", "")))
        for item in body.get("fields") or []
        if isinstance(item, dict)
    ]
    return api_error(
        message,
        status=status,
        code=str(body.get("code", "")),
        fields=fields,
        request_id=str(body.get("request_id", "")),
    )


def _not_ours(response: httpx.Response) -> ApiError:
    kind = response.headers.get("Content-Type", "something without a type").partition(";")[0]
    return api_error(
        f"{response.url} answered {response.status_code} with {kind} instead of the API's JSON. Is that a Tuneyard "
        "server, and is a proxy in between?",
        status=response.status_code if response.status_code >= 400 else 502,
    )
