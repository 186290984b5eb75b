"""API tokens: keys of programs for one workspace. Only the SHA-256 of a key is kept; the key itself is shown once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from workspaces import access
from workspaces.errors import Refused
from workspaces.models import ApiToken, Membership, Role, User, Workspace
from workspaces.scopes import Scope, least_role, ordered, scopes_of_role
from workspaces.services import audit

KEY_PREFIX = "tml-"
USED_EVERY = timedelta(minutes=1)


@transaction.atomic
def token_create(
    *,
    user: User,
    workspace: Workspace,
    name: str,
    role: Role = Role.EDITOR,
    scopes: Collection[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """A token of ``user`` for ``workspace``, and its key: the only time the key can be had.

    The token's role is at most the person's own, its scopes (None: all) are those that the role can fill. Raises
    :class:`Refused` for strangers, a missing name, a past expiry, an unknown scope or one beyond the role.
    """
    # Held so that a removal at the same moment sees this token, and revokes it.
    member = Membership.objects.select_for_update().filter(workspace=workspace, user=user).first()
    if member is None:
        raise Refused("You are not a member of this workspace.", "workspace")
    wanted = scopes_of_role(role) if scopes is None else _checked_scopes(scopes, role)
    if role > member.role:
        raise Refused(f"Your own role there is {Role(member.role).label}; a token cannot have more.", "role")
    name = " ".join(name.split())[:100]
    if not name:
        raise Refused("Give the token a name that says where it is used.", "name")
    if expires_at is not None and expires_at <= timezone.now():
        raise Refused("The expiry lies in the past.", "expires")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        workspace=workspace,
        name=name,
        prefix=key[: len(KEY_PREFIX) + 6],
        digest=_digest(key),
        role=role,
        scopes=wanted,
        expires_at=expires_at,
    )
    detail = {"role": Role(role).label, "scopes": wanted}
    audit(workspace=workspace, actor=user, action="token.create", obj=token, detail=detail)
    return token, key


def _checked_scopes(scopes: Collection[str], role: Role) -> list[str]:
    unknown = sorted(set(scopes) - set(Scope))
    if unknown:
        raise Refused(f"There is no scope {unknown[0]!r}; there are: {', '.join(Scope)}.", "scopes")
    beyond = [scope for scope in ordered(scopes) if scope not in scopes_of_role(role)]
    if beyond:
        needed = Role(least_role(beyond)).label
        raise Refused(f"The scope {beyond[0]!r} takes the role {needed}; this token is {Role(role).label}.", "scopes")
    return ordered(scopes)


def token_authenticate(*, key: str) -> User | None:
    """The person a key belongs to, marked with ``api_token`` so that ``access`` knows its limits; None if it is void.

    Void are unknown, revoked and expired keys, and those of people who are disabled or no longer members.
    """
    if not key.startswith(KEY_PREFIX) or len(key) > 200:
        return None
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user", "workspace")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), digest=_digest(key), revoked_at__isnull=True)
        .first()
    )
    if token is None or not token.user.is_active:
        return None
    if not Membership.objects.filter(workspace_id=token.workspace_id, user_id=token.user_id).exists():
        return None
    # One write a minute at most: a polling program must not turn every read into an update.
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - USED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    token.user.api_token = token  # type: ignore[attr-defined]
    return token.user


@transaction.atomic
def token_revoke(*, token: ApiToken, actor: User) -> None:
    """End a token now and for good; revoking it again changes nothing."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        return
    audit(workspace=token.workspace, actor=actor, action="token.revoke", obj=token)


def token_of(user: User, token_id: object) -> ApiToken:
    """A person's own token, or 404."""
    return access.get(ApiToken.objects.filter(user=user).select_related("workspace"), token_id, user)


def team_token_of(user: User, workspace: Workspace, token_id: object) -> ApiToken:
    """A token of anyone in the team, for its admins; 404 for what is not there, 403 for members below admin."""
    rows = ApiToken.objects.filter(workspace=workspace).select_related("workspace", "user")
    return access.get(rows, token_id, user, Role.ADMIN)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
