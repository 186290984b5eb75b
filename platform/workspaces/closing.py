"""The end of a team: at once nobody reaches it any more; its rows and files go as soon as nothing of it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from delivery.models import Message
from delivery.services import message_enqueue
from workspaces import holdings, live
from workspaces.errors import Refused
from workspaces.membership import confirm_name
from workspaces.models import ApiToken, AuditEvent, Invitation, Membership, Role, Secret, User, Workspace
from workspaces.services import audit

logger = logging.getLogger(__name__)


@transaction.atomic
def workspace_close(*, workspace: Workspace, typed_name: str, actor: User) -> None:
    """Delete a team: jobs are stopped, members, tokens, secrets and invitations end now, everything else follows.

    ``typed_name`` must be its name. Raises :class:`Refused` for anyone but an owner. There is no way back.
    """
    held = Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    mine = Membership.objects.filter(workspace=workspace, user=actor).first()
    if held is None or mine is None or mine.role < Role.OWNER:
        raise Refused("Only an owner deletes a workspace.")
    confirm_name(held, typed_name)
    close(held, actor)


def close(workspace: Workspace, actor: User) -> None:
    """End a team whose row the caller has locked, in the caller's transaction."""
    for holding in holdings.from_the_top():
        holding.stop(workspace, actor)
    now = timezone.now()
    Workspace.objects.filter(pk=workspace.pk).update(closed_at=now)
    ApiToken.objects.filter(workspace=workspace, revoked_at__isnull=True).update(revoked_at=now)
    Secret.objects.filter(workspace=workspace).delete()
    _forget_invitations(workspace)
    members = list(User.objects.filter(memberships__workspace=workspace))
    Membership.objects.filter(workspace=workspace).delete()
    audit(workspace=workspace, actor=actor, action="workspace.delete", obj=workspace)
    # The team's own log goes with it; this line, without its name, stays with the installation.
    AuditEvent.objects.create(
        workspace=None,
        actor=actor,
        actor_label=actor.email,
        action="workspace.delete",
        object_kind="workspace",
        object_id=str(workspace.pk),
    )
    for person in members:
        if person.pk != actor.pk and person.is_active:
            _tell(workspace, person, actor)
    live.access_changed([person.pk for person in members])
    transaction.on_commit(_wake, robust=True)


def closed_remove() -> list[UUID]:
    """Remove every closed team of which nothing runs any more; returns the removed ones.

    Safe to run anywhere, any number of times: a team whose removal fails half-way is removed at the next call.
    """
    removed = []
    for pk in Workspace.objects.filter(closed_at__isnull=False).values_list("pk", flat=True):
        try:
            if _remove(pk):
                removed.append(pk)
        except Exception:
            logger.exception("the closed workspace %s could not be removed yet; it is tried again", pk)
    return removed


@transaction.atomic
def _remove(pk: UUID) -> bool:
    rows = Workspace.objects.select_for_update(skip_locked=True)
    workspace = rows.filter(pk=pk, closed_at__isnull=False).first()
    if workspace is None:
        return False
    parts = list(holdings.from_the_top())
    if any(part.busy(workspace) for part in parts):
        # Asked again: something may have been started in the moment of closing.
        for part in parts:
            part.stop(workspace, None)
        return False
    for part in parts:
        part.remove(workspace)
    _forget_invitations(workspace)
    workspace.delete()
    return True


def _forget_invitations(workspace: Workspace) -> None:
    offers = Invitation.objects.filter(workspace=workspace)
    messages_forget(f"invitation:{pk}:" for pk in offers.values_list("pk", flat=True))
    offers.delete()


def messages_forget(prefixes: Iterable[str]) -> None:
    """Remove the mails about things that are gone, by the beginnings of their keys."""
    batch: list[str] = []
    for prefix in prefixes:
        batch.append(prefix)
        if len(batch) == 200:
            _delete_messages(batch)
            batch = []
    if batch:
        _delete_messages(batch)


def _delete_messages(prefixes: list[str]) -> None:
    wanted = Q()
    for prefix in prefixes:
        wanted |= Q(key__startswith=prefix)
    Message.objects.filter(wanted).delete()


def _tell(workspace: Workspace, person: User, actor: User) -> None:
    message_enqueue(
        # Sent once, and in no need of a name: nothing of the team shall be left by it.
        key=f"workspace-deleted:{uuid4()}",
        recipient=person.email,
        subject="A workspace of yours was deleted",
        text=f"{actor} has deleted the workspace “{workspace.name}”, with its jobs, data and models.\n",
        private=True,
    )


def _wake() -> None:
    from workspaces.tasks import remove_closed_workspaces

    remove_closed_workspaces.delay()
