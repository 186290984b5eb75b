"""Who belongs to a team and as what.

Admins manage everyone below owner, only an owner makes and unmakes owners, nobody raises themselves, and a team keeps
an owner. Every change locks the team's row first, so that two changes at once cannot break these rules together.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from workspaces import live
from workspaces.errors import Refused
from workspaces.models import ApiToken, Invitation, Membership, Role, User, Workspace
from workspaces.services import audit


@transaction.atomic
def member_role_set(*, workspace: Workspace, user_id: UUID, role: Role, actor: User) -> Membership:
    """Give a member another role. What the old role allowed and the new one does not ends in the same transaction.

    Raises :class:`Refused` where the rules above forbid it.
    """
    mine, member = _locked(workspace, actor), _member(workspace, user_id)
    _may_manage(mine, member)
    old = Role(member.role)
    if role == old:
        return member
    if member.user_id == actor.pk and role > old:
        raise Refused("Nobody raises their own role; ask another owner.", "role")
    if role == Role.OWNER and mine.role < Role.OWNER:
        raise Refused("Only an owner makes another member an owner.", "role")
    if old == Role.OWNER:
        _keep_an_owner(workspace, member)
    member.role = role
    member.save(update_fields=["role"])
    detail = {"from": old.label, "to": Role(role).label}
    audit(workspace=workspace, actor=actor, action="member.role", obj=member.user, detail=detail)
    if role < old:
        _end_rights(workspace, member.user, left=Role(role), actor=actor)
    return member


@transaction.atomic
def member_remove(*, workspace: Workspace, user_id: UUID, actor: User) -> None:
    """Take a member out of the team: tokens, sockets and invitations of theirs for it end at once.

    Raises :class:`Refused` where the rules above forbid it, and for oneself: one leaves.
    """
    mine, member = _locked(workspace, actor), _member(workspace, user_id)
    if member.user_id == actor.pk:
        raise Refused("You cannot remove yourself; leave the workspace instead.", "user")
    _may_manage(mine, member)
    if member.role == Role.OWNER:
        _keep_an_owner(workspace, member)
    _take_out(workspace, member, actor, "member.remove")


@transaction.atomic
def workspace_leave(*, workspace: Workspace, actor: User) -> None:
    """Leave a team. Raises :class:`Refused` for its last owner."""
    mine = _locked(workspace, actor)
    if mine.role == Role.OWNER:
        _keep_an_owner(workspace, mine)
    _take_out(workspace, mine, actor, "member.leave")


@transaction.atomic
def ownership_transfer(*, workspace: Workspace, user_id: UUID, typed_name: str, actor: User) -> None:
    """Make another member the owner in one's own place, which becomes that of an admin.

    ``typed_name`` must be the team's name, as a person typed it to show that they mean it.
    """
    mine, member = _locked(workspace, actor), _member(workspace, user_id)
    if mine.role < Role.OWNER:
        raise Refused("Only an owner hands a workspace over.", "user")
    if member.user_id == actor.pk:
        raise Refused("You own this workspace already. Choose another member.", "user")
    confirm_name(workspace, typed_name)
    if not member.user.is_active:
        raise Refused("This person's account is turned off. Choose another member.", "user")
    Membership.objects.filter(pk=member.pk).update(role=Role.OWNER)
    Membership.objects.filter(pk=mine.pk).update(role=Role.ADMIN)
    audit(workspace=workspace, actor=actor, action="workspace.transfer", obj=member.user)
    _end_rights(workspace, actor, left=Role.ADMIN, actor=actor)


def confirm_name(workspace: Workspace, typed: str) -> None:
    """Raise :class:`Refused` unless ``typed`` is the team's name, however it is spaced."""
    if " ".join(typed.split()) != workspace.name:
        raise Refused("This is not the name of the workspace. Type it as it is written above.", "typed_name")


def _locked(workspace: Workspace, actor: User) -> Membership:
    """Hold the team's row until the transaction ends, and read the actor's place in it as it is now."""
    Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    mine = Membership.objects.filter(workspace=workspace, user=actor).first()
    if mine is None:
        raise Refused("You are no longer a member of this workspace.", "user")
    return mine


def _member(workspace: Workspace, user_id: UUID) -> Membership:
    member = Membership.objects.select_related("user").filter(workspace=workspace, user_id=user_id).first()
    if member is None:
        raise Refused("This person is not a member of the workspace (any more).", "user")
    return member


def _may_manage(mine: Membership, member: Membership) -> None:
    if member.user_id == mine.user_id:
        return
    if mine.role < Role.ADMIN:
        raise Refused("Only admins and owners change other members.", "user")
    if member.role == Role.OWNER and mine.role < Role.OWNER:
        raise Refused("Only an owner changes an owner.", "user")


def _keep_an_owner(workspace: Workspace, member: Membership) -> None:
    others = Membership.objects.filter(workspace=workspace, role=Role.OWNER, user__is_active=True)
    if not others.exclude(pk=member.pk).exists():
        raise Refused(
            "A workspace needs an owner, and this is its last one. Make another member owner first, or delete the "
            "workspace.",
            "user",
        )


def _take_out(workspace: Workspace, member: Membership, actor: User, action: str) -> None:
    user, role = member.user, Role(member.role)
    member.delete()
    audit(workspace=workspace, actor=actor, action=action, obj=user, detail={"role": role.label})
    _end_rights(workspace, user, left=None, actor=actor)


def _end_rights(workspace: Workspace, user: User, *, left: Role | None, actor: User) -> None:
    """End what ``user`` may no longer have with the role ``left`` (None: as a stranger) in this team."""
    now = timezone.now()
    tokens = ApiToken.objects.filter(workspace=workspace, user=user, revoked_at__isnull=True)
    offers = Invitation.objects.filter(
        workspace=workspace, invited_by=user, accepted_at__isnull=True, revoked_at__isnull=True
    )
    if left is not None:
        tokens = tokens.filter(role__gt=left)
        offers = offers.filter(role__gt=left) if left >= Role.ADMIN else offers
    for token in tokens:
        audit(workspace=workspace, actor=actor, action="token.revoke", obj=token, detail={"why": "role"})
    tokens.update(revoked_at=now)
    for offer in offers:
        audit(workspace=workspace, actor=actor, action="invitation.revoke", obj=offer, detail={"why": "role"})
    offers.update(revoked_at=now)
    live.access_changed([user.pk])
