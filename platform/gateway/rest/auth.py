"""Who is calling: a token in a header, never a cookie, so that no foreign page can act for a person."""

from __future__ import annotations

import hashlib
from typing import cast

from django.core.cache import cache
from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer

from gateway.rest.errors import RestError
from workspaces.models import ApiToken, User
from workspaces.tokens import token_authenticate

FAILURES_ALLOWED = 30
WINDOW_S = 60
KNOWN_FOR_S = 600


def caller(request: HttpRequest) -> User:
    """The person whose token came with the request, marked with the token's limits; only behind the door."""
    return cast("User", request.auth)  # type: ignore[attr-defined]


class Bearer(HttpBearer):
    """`Authorization: Bearer tml-…`"""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return _person(request, token.strip())


class ApiKey(APIKeyHeader):
    """`X-API-Key: tml-…`"""

    param_name = "X-API-Key"

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        return _person(request, key.strip()) if key else None


def token_of(user: User) -> ApiToken:
    """The token the caller used."""
    return cast("ApiToken", user.api_token)  # type: ignore[attr-defined]


def _person(request: HttpRequest, key: str) -> User | None:
    """The token's person. Raises 429 after many wrong tokens from one address, sparing tokens that worked lately."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    failures = f"rest-auth-failures:{request.META.get('REMOTE_ADDR', '')}"
    known = f"rest-auth-known:{digest}"
    if cache.get(failures, 0) >= FAILURES_ALLOWED and not cache.get(known):
        raise RestError(429, "Too many wrong tokens came from this address; wait a minute.", retry_after=WINDOW_S)
    user = token_authenticate(key=key)
    if user is None:
        cache.delete(known)
        cache.add(failures, 0, WINDOW_S)
        try:
            cache.incr(failures)
        except ValueError:
            cache.set(failures, 1, WINDOW_S)
        return None
    cache.set(known, True, KNOWN_FOR_S)
    return user
