"""What one line of the tables says about an address, and which answer each caller must get.

A new address is one line in the table of its app::

    at("projects/<uuid:project_id>/things/", get=VIEWER),
    at("projects/<uuid:project_id>/things/<uuid:thing_id>/delete/", post=EDITOR),
    at("api/v1/things", get=TOKEN, post=EDITOR, json={"project": "{project_id}", "name": "new"}),

The first word is the address as Django's resolver has it. Each method that is possible has the need that opens it;
every method that is not named must be refused. An argument of the address, such as ``thing_id``, is taken from
``World.objects`` (``access_world.py``): make one there when the name is new, with ``MARKER`` in each of its texts.
``form`` and ``json`` are what unsafe methods send, ``query`` follows the ``?``; ``{project_id}`` and the like are
filled in. What an admin's token does takes the scope ``manage``, other changes take ``scope`` (``write`` unless said).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from workspaces.models import Role
from workspaces.scopes import Scope

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
METHODS = ("GET", *UNSAFE)


class Need(Enum):
    """What opens an address. A role is one in the workspace that the address is about."""

    PUBLIC = "nothing"
    SIGNED_IN = "a signed-in person"
    TOKEN = "any token that works"
    VIEWER = Role.VIEWER
    EDITOR = Role.EDITOR
    ADMIN = Role.ADMIN
    OWNER = Role.OWNER
    MINE = "being the one person whose object it is"
    STAFF = "being one of the installation's staff"


PUBLIC, SIGNED_IN, TOKEN, MINE, STAFF = Need.PUBLIC, Need.SIGNED_IN, Need.TOKEN, Need.MINE, Need.STAFF
VIEWER, EDITOR, ADMIN, OWNER = Need.VIEWER, Need.EDITOR, Need.ADMIN, Need.OWNER


class Verdict(Enum):
    PUBLIC = "neither 401, 403, 404, 405 nor 5xx"
    ALLOWED = "neither 401, 403, 404, 405 nor 5xx, nor the way to the sign-in page"
    SIGN_IN = "a redirect to the sign-in page"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    NOT_FOUND = "404"


@dataclass(frozen=True)
class Entry:
    """One address: who may do what there."""

    route: str
    needs: dict[str, Need]
    form: dict[str, Any] | None = None
    json: dict[str, Any] | None = None
    query: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    # The address acts in the caller's own workspace, whoever they are.
    home: bool = False
    # The scope that unsafe methods take of a token, where it is not ``write``.
    scope: Scope = Scope.WRITE
    # Even to a member its answer shows no text of the team.
    quiet: bool = False

    @property
    def for_programs(self) -> bool:
        """Opened by tokens, not by sessions."""
        return self.route.startswith("api/")


def at(
    route: str,
    *,
    get: Need | None = None,
    post: Need | None = None,
    put: Need | None = None,
    patch: Need | None = None,
    delete: Need | None = None,
    **more: Any,
) -> Entry:
    """A line of a table; see the head of this file."""
    given = {"GET": get, "POST": post, "PUT": put, "PATCH": patch, "DELETE": delete}
    return Entry(route, {method: need for method, need in given.items() if need is not None}, **more)


@dataclass(frozen=True)
class Caller:
    """Someone who asks. ``role``: in the workspace whose objects are asked for; None: a stranger there.

    ``known`` is False for those whom the door does not take for anybody: without a session, or with a void token.
    """

    name: str
    role: Role | None = None
    known: bool = True
    staff: bool = False
    # The role where they are at home, for addresses that act there.
    home_role: Role | None = None
    # What their token may be used for; None: all that the role allows.
    scopes: frozenset[Scope] | None = None
    # They are the person to whom the objects of one person belong.
    owns: bool = False


def verdict(entry: Entry, method: str, caller: Caller) -> Verdict:
    """The answer that this caller must get."""
    found = _by_role(entry, entry.needs[method], caller)
    if found is Verdict.ALLOWED and caller.scopes is not None and _scope(entry, method) not in caller.scopes:
        return Verdict.FORBIDDEN
    return found


def _scope(entry: Entry, method: str) -> Scope:
    if entry.needs[method] in (Need.ADMIN, Need.OWNER):
        return Scope.MANAGE
    return entry.scope if method in UNSAFE else Scope.READ


def _by_role(entry: Entry, need: Need, caller: Caller) -> Verdict:
    if need is Need.PUBLIC:
        return Verdict.PUBLIC
    if not caller.known:
        return Verdict.UNAUTHORIZED if entry.for_programs else Verdict.SIGN_IN
    if need in (Need.SIGNED_IN, Need.TOKEN):
        return Verdict.ALLOWED
    if need is Need.MINE:
        return Verdict.ALLOWED if caller.owns else Verdict.NOT_FOUND
    if need is Need.STAFF:
        return Verdict.ALLOWED if caller.staff else Verdict.NOT_FOUND
    role = caller.role if caller.role is not None or not entry.home else caller.home_role
    if role is None:
        return Verdict.NOT_FOUND
    return Verdict.ALLOWED if role >= need.value else Verdict.FORBIDDEN
