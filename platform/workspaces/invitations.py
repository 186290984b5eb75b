"""Invitations to a team, by mail: bound to one address, taken once, kept only as a hash of the key in the link."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from delivery import wake
from delivery.services import message_enqueue
from workspaces import limits
from workspaces.errors import Refused
from workspaces.models import Invitation, Membership, Role, User, Workspace
from workspaces.services import audit, user_create

DAYS = 7
LONGEST_DAYS = 90
PATIENCE = timedelta(minutes=1)
BY_WORKSPACE = limits.Limit("invite", 30, 60)
ANSWER_BY_ADDRESS = limits.Limit("invitation-answer", 20, 30)


@transaction.atomic
def invitation_create(*, workspace: Workspace, email: str, role: Role, actor: User, days: int = DAYS) -> Invitation:
    """Offer ``email`` a place in the team, by a mail with a link that works for ``days``.

    Whether the address has an account here plays no part, so that nothing is learned of it. Raises :class:`Refused` for
    a bad address, a member, an open invitation, a role above the inviter's power, and when too many were sent.
    """
    Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    mine = Membership.objects.filter(workspace=workspace, user=actor).first()
    if mine is None or mine.role < Role.ADMIN:
        raise Refused("Only admins and owners invite.", "email")
    if role > mine.role:
        raise Refused("Only an owner invites owners.", "role")
    email = email.strip()
    try:
        validate_email(email)
    except ValidationError:
        raise Refused("This is not an e-mail address.", "email") from None
    if not 1 <= days <= LONGEST_DAYS:
        raise Refused(f"An invitation is open for 1 to {LONGEST_DAYS} days.", "days")
    if Membership.objects.filter(workspace=workspace, user__email__iexact=email).exists():
        raise Refused(f"{email} is already a member.", "email")
    now = timezone.now()
    open_one = Invitation.objects.filter(
        workspace=workspace, email__iexact=email, accepted_at__isnull=True, revoked_at__isnull=True
    ).first()
    if open_one is not None and open_one.expires_at > now:
        raise Refused(f"{email} is already invited. Send that invitation again, or revoke it.", "email")
    if open_one is not None:
        Invitation.objects.filter(pk=open_one.pk).update(revoked_at=now)
    _take(workspace)
    key = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        email=email,
        role=role,
        digest=_digest(key),
        invited_by=actor,
        sent_at=now,
        expires_at=now + timedelta(days=days),
    )
    audit(workspace=workspace, actor=actor, action="invitation.create", obj=invitation)
    _mail(invitation, key)
    return invitation


@transaction.atomic
def invitation_resend(*, invitation: Invitation, actor: User) -> Invitation:
    """Send an open (or run-out) invitation again: with a new link, the old one no longer works, for as long again."""
    invitation = _open_or_refuse(invitation)
    now = timezone.now()
    if now - invitation.sent_at < PATIENCE:
        raise Refused("It was sent less than a minute ago. Wait a little, then send it again.")
    _take(invitation.workspace)
    key = secrets.token_urlsafe(32)
    days = max(1, round((invitation.expires_at - invitation.sent_at).total_seconds() / 86_400))
    invitation.digest, invitation.sent_at = _digest(key), now
    invitation.expires_at = now + timedelta(days=days)
    invitation.save(update_fields=["digest", "sent_at", "expires_at"])
    audit(workspace=invitation.workspace, actor=actor, action="invitation.resend", obj=invitation)
    _mail(invitation, key)
    return invitation


@transaction.atomic
def invitation_revoke(*, invitation: Invitation, actor: User) -> None:
    """Take an invitation back; its link no longer works. Revoking it again changes nothing."""
    open_ones = Invitation.objects.filter(pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True)
    if open_ones.update(revoked_at=timezone.now()):
        audit(workspace=invitation.workspace, actor=actor, action="invitation.revoke", obj=invitation)


def invitation_of_key(key: str) -> Invitation | None:
    """The invitation a link leads to, if it can still be taken."""
    found = Invitation.objects.select_related("workspace", "invited_by").filter(digest=_digest(key)).first()
    return found if found is not None and _is_open(found) else None


@transaction.atomic
def invitation_accept(*, invitation: Invitation, user: User) -> Membership:
    """Take the place that is offered. Raises :class:`Refused` when it is gone, or meant for another address."""
    invitation = _locked(invitation)
    if invitation.email.casefold() != user.email.casefold():
        raise Refused(f"This invitation is for {invitation.email}, and you are signed in as {user.email}.")
    member, made = Membership.objects.get_or_create(
        workspace=invitation.workspace, user=user, defaults={"role": invitation.role}
    )
    invitation.accepted_at, invitation.accepted_by = timezone.now(), user
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    if made:
        role = Role(invitation.role).label
        audit(workspace=invitation.workspace, actor=user, action="invitation.accept", obj=invitation)
        audit(workspace=invitation.workspace, actor=user, action="member.add", obj=user, detail={"role": role})
    return member


@transaction.atomic
def invitation_accept_new(*, invitation: Invitation, name: str, password: str) -> User:
    """Make the account of the invited address, and take the place. The mail has shown that the address is theirs.

    Raises :class:`Refused` when the invitation is gone, the password is weak, or the address has an account by now.
    """
    invitation = _locked(invitation)
    user = user_create(email=invitation.email, password=password, name=" ".join(name.split())[:150])
    invitation_accept(invitation=invitation, user=user)
    return user


def _locked(invitation: Invitation) -> Invitation:
    """The row, held until the transaction ends, so that a link is taken once however often it is sent."""
    # The team first, as everything that changes its members does.
    Workspace.objects.select_for_update().filter(pk=invitation.workspace_id).first()
    rows = Invitation.objects.select_for_update(of=("self",)).select_related("workspace")
    row = rows.filter(pk=invitation.pk).first()
    if row is None or not _is_open(row):
        raise Refused("This invitation was taken, revoked, or has run out. Ask for a new one.")
    return row


def _is_open(invitation: Invitation) -> bool:
    taken = invitation.accepted_at is not None or invitation.revoked_at is not None
    return not taken and invitation.expires_at > timezone.now() and invitation.workspace.closed_at is None


def _open_or_refuse(invitation: Invitation) -> Invitation:
    row = Invitation.objects.select_for_update(of=("self",)).select_related("workspace").get(pk=invitation.pk)
    if row.accepted_at is not None or row.revoked_at is not None:
        raise Refused("This invitation was taken or revoked. Invite the address anew.")
    return row


def _take(workspace: Workspace) -> None:
    if not limits.take(BY_WORKSPACE, str(workspace.pk)):
        raise Refused("Many invitations were sent from this workspace just now. Wait a minute, then go on.", "email")


def _mail(invitation: Invitation, key: str) -> None:
    context = {
        "invitation": invitation,
        "role": Role(invitation.role).label,
        "link": settings.PUBLIC_URL + reverse("invitation", args=[key]),
    }
    message_enqueue(
        key=f"invitation:{invitation.pk}:{invitation.digest[:12]}",
        recipient=invitation.email,
        subject=f"Invitation to {invitation.workspace.name}",
        text=render_to_string("mail/invitation.txt", context),
        html=render_to_string("mail/invitation.html", context),
        private=True,
    )
    transaction.on_commit(wake.mail_waiting, robust=True)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
