"""What a token may be used for: a small set of scopes, bounded further by its role and its person's role.

Every token may look (``read``). The REST door asks for the scope of an operation; ``workspaces.access`` asks once more,
by the role that is needed: what takes an editor takes ``write`` or ``train``, what takes an admin takes ``manage``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from workspaces.models import ApiToken, Role, User


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    TRAIN = "train"
    MANAGE = "manage"


MEANING: dict[Scope, str] = {
    Scope.READ: "look at everything, download data and models",
    Scope.WRITE: "upload data, save rewards, make projects and merged weights",
    Scope.TRAIN: "start and stop jobs, which costs money",
    Scope.MANAGE: "members, invitations, tokens and the audit log; for admins",
}
LEAST_ROLE: dict[Scope, Role] = {
    Scope.READ: Role.VIEWER,
    Scope.WRITE: Role.EDITOR,
    Scope.TRAIN: Role.EDITOR,
    Scope.MANAGE: Role.ADMIN,
}


def scopes_of_role(role: int) -> list[str]:
    """All that a token with this role can be used for."""
    return [scope.value for scope in Scope if LEAST_ROLE[scope] <= role]


def ordered(scopes: Iterable[str]) -> list[str]:
    """The known ones among ``scopes``, ``read`` always with them, each once."""
    wanted = {*scopes, Scope.READ}
    return [scope.value for scope in Scope if scope in wanted]


def least_role(scopes: Iterable[str]) -> Role:
    """The smallest role that can do all of it."""
    return max(LEAST_ROLE[Scope(scope)] for scope in {*scopes, Scope.READ})


def has_scope(user: User, scope: Scope) -> bool:
    """Whether the caller's token covers ``scope``; a person without a token, in a browser, is bound by role alone."""
    token: ApiToken | None = getattr(user, "api_token", None)
    return token is None or scope in token.scopes


def covers(token: Any, need: Role) -> bool:
    """Whether a token may do anything at all that takes the role ``need``."""
    if token.role < need:
        return False
    if need <= Role.VIEWER:
        return Scope.READ in token.scopes
    if need <= Role.EDITOR:
        return Scope.WRITE in token.scopes or Scope.TRAIN in token.scopes
    return Scope.MANAGE in token.scopes


def scope_choices(highest: int) -> list[tuple[str, str]]:
    """The scopes that a token of the role ``highest`` can have, but ``read``, which is in every token."""
    return [(scope, f"{scope}: {MEANING[Scope(scope)]}") for scope in scopes_of_role(highest) if scope != Scope.READ]
