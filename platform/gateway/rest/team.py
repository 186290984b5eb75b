"""/members, /invitations, /tokens and /audit of the token's workspace."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Status
from pydantic import Field

from gateway.rest.auth import caller, scoped, token_of
from gateway.rest.errors import RestError
from gateway.rest.paging import Cursor, Limit, page
from gateway.rest.schemas import Page, refusals
from gateway.rest.team_schemas import (
    AuditOut,
    InvitationIn,
    InvitationOut,
    MemberOut,
    MemberRoleIn,
    MembersOut,
    NewTokenOut,
    TeamTokenIn,
    TeamTokenOut,
)
from workspaces import access, audit_log, invitations, membership, tokens
from workspaces.models import ApiToken, Invitation, Membership, Role, User, Workspace
from workspaces.scopes import Scope, scopes_of_role
from workspaces.selectors import members_of, open_invitations, team_tokens

router = Router(tags=["team"])
MANAGE = scoped(Scope.MANAGE)


def _workspace(user: User, need: Role) -> Workspace:
    return access.get(Workspace.objects.all(), token_of(user).workspace_id, user, need)


@router.get("/members", response={200: MembersOut, **refusals()}, summary="Members", operation_id="member_list")
def member_list(request: HttpRequest) -> dict[str, Any]:
    user = caller(request)
    return {"items": [_member(line) for line in members_of(_workspace(user, Role.VIEWER))]}


@router.patch(
    "/members/{uuid:user_id}",
    response={200: MemberOut, **refusals(400, 403, 404)},
    summary="Give a member another role",
    operation_id="member_role",
    auth=MANAGE,
)
def member_role(request: HttpRequest, user_id: UUID, body: MemberRoleIn) -> dict[str, Any]:
    user = caller(request)
    workspace = _workspace(user, Role.ADMIN)
    member = _known_member(user, workspace, user_id)
    _own_role_at_least(user, Role(member.role))
    role = _own_role_at_least(user, Role[body.role.upper()])
    membership.member_role_set(workspace=workspace, user_id=user_id, role=role, actor=user)
    return next(_member(line) for line in members_of(workspace) if line.user.pk == user_id)


@router.delete(
    "/members/{uuid:user_id}",
    response={204: None, **refusals(403, 404)},
    summary="Remove a member; their tokens and sockets end at once",
    operation_id="member_remove",
    auth=MANAGE,
)
def member_remove(request: HttpRequest, user_id: UUID) -> Status:
    user = caller(request)
    workspace = _workspace(user, Role.ADMIN)
    member = _known_member(user, workspace, user_id)
    _own_role_at_least(user, Role(member.role))
    membership.member_remove(workspace=workspace, user_id=user_id, actor=user)
    return Status(204, None)


@router.get(
    "/invitations",
    response={200: Page[InvitationOut], **refusals(403)},
    summary="Open invitations",
    operation_id="invitation_list",
    auth=MANAGE,
)
def invitation_list(request: HttpRequest, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    workspace = _workspace(caller(request), Role.ADMIN)
    rows, following = page(open_invitations(workspace), cursor, limit)
    return {"items": [_invitation(row) for row in rows], "next": following}


@router.post(
    "/invitations",
    response={201: InvitationOut, **refusals(400, 403)},
    summary="Invite an address by mail",
    operation_id="invitation_create",
    auth=MANAGE,
)
def invitation_add(request: HttpRequest, body: InvitationIn) -> Status:
    user = caller(request)
    workspace = _workspace(user, Role.ADMIN)
    role = _own_role_at_least(user, Role[body.role.upper()])
    made = invitations.invitation_create(workspace=workspace, email=body.email, role=role, actor=user, days=body.days)
    return Status(201, _invitation(made))


@router.post(
    "/invitations/{uuid:invitation_id}/resend",
    response={200: InvitationOut, **refusals(403, 404)},
    summary="Send an invitation again, with a new link",
    operation_id="invitation_resend",
    auth=MANAGE,
)
def invitation_resend(request: HttpRequest, invitation_id: UUID) -> dict[str, Any]:
    user = caller(request)
    offer = _known_invitation(user, invitation_id)
    return _invitation(invitations.invitation_resend(invitation=offer, actor=user))


@router.delete(
    "/invitations/{uuid:invitation_id}",
    response={204: None, **refusals(403, 404)},
    summary="Revoke an invitation",
    operation_id="invitation_revoke",
    auth=MANAGE,
)
def invitation_revoke(request: HttpRequest, invitation_id: UUID) -> Status:
    user = caller(request)
    invitations.invitation_revoke(invitation=_known_invitation(user, invitation_id), actor=user)
    return Status(204, None)


@router.get(
    "/tokens",
    response={200: Page[TeamTokenOut], **refusals(403)},
    summary="Every token for the workspace, never a key",
    operation_id="token_list",
    auth=MANAGE,
)
def token_list(request: HttpRequest, limit: Limit = 50, cursor: Cursor = None) -> dict[str, Any]:
    workspace = _workspace(caller(request), Role.ADMIN)
    rows, following = page(team_tokens(workspace), cursor, limit)
    return {"items": [_token(row) for row in rows], "next": following}


@router.post(
    "/tokens",
    response={201: NewTokenOut, **refusals(400, 403)},
    summary="Make a token of your own, at most as strong and as long-lived as the calling one",
    operation_id="token_create",
    auth=MANAGE,
)
def token_add(request: HttpRequest, body: TeamTokenIn) -> Status:
    user, mine = caller(request), token_of(caller(request))
    workspace = _workspace(user, Role.ADMIN)
    role = _own_role_at_least(user, Role[body.role.upper()])
    scopes = [str(scope) for scope in body.scopes] if body.scopes is not None else scopes_of_role(role)
    beyond = [scope for scope in scopes if scope not in mine.scopes]
    if beyond:
        raise RestError(403, f"The calling token itself lacks the scope {beyond[0]!r}.")
    ends = body.expires_at
    if ends is not None and timezone.is_naive(ends):
        raise RestError(422, "The request does not fit.", fields=[("expires_at", "needs a time zone, such as Z")])
    if mine.expires_at is not None and (ends is None or ends > mine.expires_at):
        raise RestError(403, f"The calling token ends on {mine.expires_at:%Y-%m-%d}; the new one must end by then.")
    token, key = tokens.token_create(
        user=user, workspace=workspace, name=body.name, role=role, scopes=scopes, expires_at=ends
    )
    return Status(201, {**_token(token), "key": key})


@router.delete(
    "/tokens/{uuid:token_id}",
    response={204: None, **refusals(403, 404)},
    summary="Revoke a token of anyone in the workspace",
    operation_id="token_revoke",
    auth=MANAGE,
)
def token_revoke(request: HttpRequest, token_id: UUID) -> Status:
    user = caller(request)
    token = tokens.team_token_of(user, _workspace(user, Role.ADMIN), token_id)
    tokens.token_revoke(token=token, actor=user)
    return Status(204, None)


Text = Annotated[str, Field(max_length=200)]


@router.get(
    "/audit",
    response={200: AuditOut, **refusals(403)},
    summary="The audit log, the newest first",
    operation_id="audit_list",
    auth=MANAGE,
)
def audit_list(
    request: HttpRequest,
    who: Text = "",
    action: Text = "",
    kind: Text = "",
    since: Annotated[str, Field(max_length=10, description="A day in UTC, 2026-12-01, inclusive.")] = "",
    until: Annotated[str, Field(max_length=10, description="A day in UTC, inclusive.")] = "",
    limit: Limit = 50,
    cursor: Annotated[str, Field(max_length=20, description="`next` of the page before.")] = "",
) -> dict[str, Any]:
    user = caller(request)
    events = audit_log.events_visible_to(user, _workspace(user, Role.ADMIN))
    query = {"who": who, "action": action, "kind": kind, "since": since, "until": until}
    found = audit_log.page(audit_log.filtered(events, query), cursor, limit)
    fields = ("id", "at", "action", "object_kind", "object_id", "object_label", "detail")
    items = [{"who": event.actor_label, **{name: getattr(event, name) for name in fields}} for event in found.events]
    return {"items": items, "next": str(found.next) if found.next else None}


def _own_role_at_least(user: User, role: Role) -> Role:
    """The role, unless it is above the calling token's own: a token never does what only its person could."""
    if role > token_of(user).role:
        raise RestError(403, f"The calling token's role is below {role.label}.")
    return role


def _known_member(user: User, workspace: Workspace, user_id: UUID) -> Membership:
    row = Membership.objects.filter(workspace=workspace, user_id=user_id).first()
    return access.get(Membership.objects.filter(workspace=workspace), row.pk if row else None, user, Role.ADMIN)


def _known_invitation(user: User, invitation_id: UUID) -> Invitation:
    rows = open_invitations(_workspace(user, Role.ADMIN)).select_related("workspace")
    return access.get(rows, invitation_id, user, Role.ADMIN)


def _member(line: Any) -> dict[str, Any]:
    return {
        "user": line.user,
        "role": line.role.label,
        "joined_at": line.joined_at,
        "last_active_at": line.last_active,
    }


def _invitation(row: Invitation) -> dict[str, Any]:
    return {
        "role": Role(row.role).label,
        "invited_by": row.invited_by.email if row.invited_by else None,
        **{name: getattr(row, name) for name in ("id", "email", "created_at", "sent_at", "expires_at")},
    }


def _token(row: ApiToken) -> dict[str, Any]:
    fields = ("id", "name", "prefix", "user", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")
    return {"role": Role(row.role).label, **{name: getattr(row, name) for name in fields}}
