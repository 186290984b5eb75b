"""Turning a person's account off, and removing it for good."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from delivery.models import Message
from workspaces import holdings, live
from workspaces.closing import close
from workspaces.errors import Refused
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Role, User, Workspace
from workspaces.services import audit

# What stands in rows that outlive a person.
FORMER = "a former member"


@transaction.atomic
def person_deactivate(*, user: User, actor: User | None) -> None:
    """Turn an account off: sessions, sockets and tokens end at once. Nothing of theirs is removed."""
    if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
        return
    user.is_active = False
    ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=timezone.now())
    audit(workspace=None, actor=actor, action="user.deactivate", obj=user)
    for workspace in Workspace.objects.filter(memberships__user=user):
        audit(workspace=workspace, actor=actor, action="user.deactivate", obj=user)
    live.access_changed([user.pk])


@transaction.atomic
def person_activate(*, user: User, actor: User | None) -> None:
    """Turn an account on again. Its old tokens stay revoked."""
    if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        return
    user.is_active = True
    audit(workspace=None, actor=actor, action="user.activate", obj=user)


def last_owner_of(user: User) -> list[Workspace]:
    """Teams with other people in them that have no other owner."""
    return [team for team in _owned(user) if _others(team, user).exists()]


def alone_in(user: User) -> list[Workspace]:
    """Teams that have nobody else: they go when the person goes."""
    mine = Workspace.objects.filter(memberships__user=user)
    return [team for team in mine if not Membership.objects.filter(workspace=team).exclude(user=user).exists()]


@transaction.atomic
def person_delete(*, user: User, typed_email: str) -> None:
    """Remove an account for good, with the teams that have nobody else.

    What others need to understand their own work stays (jobs, data, the audit log), without name and address. Raises
    :class:`Refused` when ``typed_email`` is not the account's address, and for the last owner of a team with others.
    """
    if typed_email.strip().casefold() != user.email.casefold():
        raise Refused("This is not the address of your account. Type it as it is written above.", "typed_email")
    teams = Workspace.objects.select_for_update().filter(memberships__user=user).order_by("pk")
    held = list(teams)
    left_behind = last_owner_of(user)
    if left_behind:
        names = ", ".join(f"“{team.name}”" for team in left_behind)
        raise Refused(
            f"You are the last owner of {names}. Hand the workspace over to another member, or delete it, first."
        )
    alone = {team.pk for team in alone_in(user)}
    for team in held:
        if team.pk in alone:
            close(team, user)
        else:
            role = Membership.objects.get(workspace=team, user=user).role
            audit(workspace=team, actor=user, action="member.leave", obj=user, detail={"role": Role(role).label})
    _forget(user)
    user_id = user.pk
    user.delete()
    AuditEvent.objects.create(
        action="user.delete", actor_label=FORMER, object_kind="user", object_id=str(user_id), object_label=FORMER
    )
    live.access_changed([user_id])


def _owned(user: User) -> list[Workspace]:
    """Teams of which the person is the only owner that can sign in."""
    mine = Workspace.objects.filter(memberships__user=user, memberships__role=Role.OWNER)
    return [team for team in mine if not _others(team, user).filter(role=Role.OWNER, user__is_active=True).exists()]


def _others(team: Workspace, user: User) -> QuerySet[Membership]:
    return Membership.objects.filter(workspace=team).exclude(user=user)


def _forget(user: User) -> None:
    """Take name and address out of the rows that stay."""
    # Invitations are named in the log by their address.
    sent = Q(object_kind="invitation", object_label__istartswith=f"{user.email} ")
    AuditEvent.objects.filter(sent).update(object_label=FORMER)
    AuditEvent.objects.filter(object_kind="user", object_id=str(user.pk)).update(object_label=FORMER)
    AuditEvent.objects.filter(actor=user).update(actor_label=FORMER)
    AuditEvent.objects.filter(object_kind="api token", object_id__in=_token_ids(user)).update(object_label="")
    Invitation.objects.filter(email__iexact=user.email).delete()
    Message.objects.filter(recipient__iexact=user.email).delete()
    for holding in holdings.from_the_top():
        holding.forget_person(user.pk, {user.email, str(user)}, FORMER)
    _end_sessions(user.pk)


def _token_ids(user: User) -> list[str]:
    return [str(pk) for pk in ApiToken.objects.filter(user=user).values_list("pk", flat=True)]


def _end_sessions(user_id: UUID) -> None:
    """Remove the person's rows of sessions; without the account they would open nothing, but they name it."""
    for session in Session.objects.iterator():
        if session.get_decoded().get(SESSION_KEY) == str(user_id):
            session.delete()
