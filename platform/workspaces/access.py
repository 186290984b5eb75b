"""The one door to every object that belongs to a team.

A model that belongs to a workspace says by ``workspace_path`` which lookup leads from it to the workspace's id, so this
module needs to know no model. Whatever a person may not see does not exist for them: the answer is 404, never 403;
403 is only for what they may see but not do.
"""

from __future__ import annotations

from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404

from workspaces import scopes
from workspaces.models import Membership, Role, User

M = TypeVar("M", bound=Model)


def visible(queryset: QuerySet[M], user: User, need: Role = Role.VIEWER) -> QuerySet[M]:
    """The rows of ``queryset`` in workspaces where ``user`` has at least the role ``need``."""
    if not user.is_active:
        return queryset.none()
    path: str = queryset.model.workspace_path  # type: ignore[attr-defined]
    token = getattr(user, "api_token", None)
    memberships = Membership.objects.filter(user=user, role__gte=need)
    if token is not None:
        # A token reaches only its own workspace, and never more than its role and its scopes.
        allowed = scopes.covers(token, need)
        memberships = memberships.filter(workspace_id=token.workspace_id) if allowed else memberships.none()
    return queryset.filter(**{f"{path}__in": memberships.values("workspace_id")})


def get(queryset: QuerySet[M], id: Any, user: User, need: Role = Role.VIEWER) -> M:
    """The row with this id, for a user with the role ``need``.

    Raises ``Http404`` when the row does not exist or is not theirs to see, ``PermissionDenied`` when they may see it
    but lack the role.
    """
    try:
        found = visible(queryset, user).get(pk=id)
    except (ObjectDoesNotExist, ValidationError, ValueError, TypeError):
        raise Http404(f"There is no such {queryset.model._meta.verbose_name}, or it is not yours to see.") from None
    if need > Role.VIEWER and not visible(queryset, user, need).filter(pk=found.pk).exists():
        raise lacking(need)
    return found


def check(role: Role | None, need: Role) -> Role:
    """The role a person has, if it is at least ``need``; ``Http404`` for a stranger, else ``PermissionDenied``."""
    if role is None:
        raise Http404
    if role < need:
        raise lacking(need)
    return role


def lacking(need: Role) -> PermissionDenied:
    """What to raise for a member whose role is too low."""
    return PermissionDenied(f"This needs the role {Role(need).label} in the workspace; ask one of its admins.")
