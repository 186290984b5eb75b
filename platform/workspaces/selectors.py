"""What a person may see of teams, projects and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Max, Prefetch, Q, QuerySet
from django.db.models.functions import Lower

from workspaces import access
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Project, Role, User, Workspace


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


@dataclass(frozen=True)
class MemberLine:
    """A member as the team sees them; ``last_active`` is their last sign-in, change here, or use of a token here."""

    user: User
    role: Role
    joined_at: datetime
    last_active: datetime | None


def members_of(workspace: Workspace) -> list[MemberLine]:
    """The team's members, the strongest role first. Two queries, however many they are."""
    acted = (
        AuditEvent.objects.filter(workspace=workspace, actor__isnull=False)
        .order_by()
        .values_list("actor_id")
        .annotate(last=Max("at"))
    )
    last_acts: dict[UUID, datetime] = dict(acted)
    rows = (
        Membership.objects.filter(workspace=workspace)
        .select_related("user")
        .annotate(token_used=Max("user__tokens__last_used_at", filter=Q(user__tokens__workspace=workspace)))
        .order_by("-role", Lower("user__name"), "user__email")
    )
    lines = []
    for row in rows:
        signs = [row.user.last_login, last_acts.get(row.user_id), row.token_used]
        last = max((sign for sign in signs if sign is not None), default=None)
        lines.append(MemberLine(row.user, Role(row.role), row.created_at, last))
    return lines


def open_invitations(workspace: Workspace) -> QuerySet[Invitation]:
    """Invitations nobody has taken or revoked, those that have run out among them."""
    rows = Invitation.objects.filter(workspace=workspace, accepted_at__isnull=True, revoked_at__isnull=True)
    return rows.select_related("invited_by")


def team_tokens(workspace: Workspace) -> QuerySet[ApiToken]:
    """Every token for the team, whoever made it; those that still work first."""
    rows = ApiToken.objects.filter(workspace=workspace).select_related("user")
    return rows.order_by(F("revoked_at").asc(nulls_first=True), "-created_at")


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """A person's own tokens in the teams they are in, those that still work first."""
    rows = access.visible(ApiToken.objects.filter(user=user), user)
    return rows.select_related("workspace").order_by(F("revoked_at").asc(nulls_first=True), "-created_at")
