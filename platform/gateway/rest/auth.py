"""Who is calling: a token in a header, never a cookie, so that no foreign page can act for a person."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from django.core.cache import cache
from django.http import HttpRequest
from ninja.security import APIKeyHeader, HttpBearer

from gateway.rest.errors import RestError
from workspaces.models import ApiToken, User
from workspaces.scopes import LEAST_ROLE, Scope, has_scope
from workspaces.tokens import token_authenticate

FAILURES_ALLOWED = 30
WINDOW_S = 60
KNOWN_FOR_S = 600


def caller(request: HttpRequest) -> User:
    """The person whose token came with the request, marked with the token's limits; only behind the door."""
    return cast("User", request.auth)  # type: ignore[attr-defined]


class Bearer(HttpBearer):
    """`Authorization: Bearer tml-…`"""

    def __init__(self, scope: Scope | None = None) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return _checked(_person(request, token.strip()), request, self.scope)


class ApiKey(APIKeyHeader):
    """`X-API-Key: tml-…`"""

    param_name = "X-API-Key"

    def __init__(self, scope: Scope | None = None) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        return _checked(_person(request, key.strip()), request, self.scope) if key else None


def scoped(scope: Scope) -> list[Any]:
    """The ``auth`` of an operation that takes another scope than its method says."""
    return [Bearer(scope), ApiKey(scope)]


def _checked(user: User | None, request: HttpRequest, scope: Scope | None) -> User | None:
    """The same person, unless their token lacks the scope: looking takes ``read``, anything else ``write``."""
    needed = scope or (Scope.READ if request.method in ("GET", "HEAD") else Scope.WRITE)
    if user is not None and not has_scope(user, needed):
        role = LEAST_ROLE[needed]
        if token_of(user).role < role:
            raise RestError(403, f"This needs the role {role.label}, and a token with the scope {needed.value!r}.")
        raise RestError(403, f"This token lacks the scope {needed.value!r}. Make one that has it on 'API tokens'.")
    return user


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
