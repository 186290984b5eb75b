"""What a person may see of teams, projects and tokens."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Prefetch, QuerySet

from workspaces import access
from workspaces.models import ApiToken, Membership, Project, Role, User, Workspace


def workspaces_of(user: User) -> QuerySet[Workspace]:
    """The teams ``user`` is a member of, their projects fetched along."""
    return access.visible(Workspace.objects.all(), user).prefetch_related(
        Prefetch("projects", queryset=Project.objects.order_by("name"))
    )


def projects_of(user: User) -> QuerySet[Project]:
    """Every project ``user`` may see, with its workspace."""
    return access.visible(Project.objects.select_related("workspace"), user).order_by("workspace__name", "name")


def role_in(workspace_id: UUID, user: User) -> Role | None:
    """The role of ``user`` in a workspace, or None for a stranger; never more than their token's."""
    token = getattr(user, "api_token", None)
    if not user.is_active or (token is not None and token.workspace_id != workspace_id):
        return None
    value = Membership.objects.filter(workspace_id=workspace_id, user=user).values_list("role", flat=True).first()
    if value is None:
        return None
    return Role(value if token is None else min(value, token.role))


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """A person's own tokens in the teams they are in, those that still work first."""
    rows = access.visible(ApiToken.objects.filter(user=user), user)
    return rows.select_related("workspace").order_by("revoked_at", "-created_at")
