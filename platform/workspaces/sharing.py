"""Links that show one thing without an account: signed, for some days, revocable at any moment."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from workspaces.errors import Refused
from workspaces.models import SharedLink, User, Workspace
from workspaces.services import audit

LONGEST_DAYS = 90
MOST = 20
_signer = Signer(salt="tuneyard.shared-link")


def shared_link_key(link: SharedLink) -> str:
    """What stands in the address; it can be told again as long as the installation keeps its secret key."""
    return _signer.sign(link.pk.hex)


@transaction.atomic
def shared_link_create(
    *, workspace: Workspace, kind: str, object_id: UUID, label: str, days: int, actor: User
) -> SharedLink:
    """A link to one thing for ``days``. Raises :class:`Refused` for another number of days, or too many open links."""
    if not 1 <= days <= LONGEST_DAYS:
        raise Refused(f"A link works for 1 to {LONGEST_DAYS} days.", "days")
    Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    if shared_links_open(workspace, kind, object_id).count() >= MOST:
        raise Refused(f"There are {MOST} links to it already; revoke one first.")
    link = SharedLink.objects.create(
        workspace=workspace,
        kind=kind,
        object_id=object_id,
        label=label[:300],
        created_by=actor,
        expires_at=timezone.now() + timedelta(days=days),
    )
    detail = {"kind": kind, "object": str(object_id), "days": days}
    audit(workspace=workspace, actor=actor, action="link.create", obj=link, detail=detail)
    return link


@transaction.atomic
def shared_link_revoke(*, link: SharedLink, actor: User) -> None:
    """From now on the link shows nothing. Revoking it again changes nothing."""
    if SharedLink.objects.filter(pk=link.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        detail = {"kind": link.kind, "object": str(link.object_id)}
        audit(workspace=link.workspace, actor=actor, action="link.revoke", obj=link, detail=detail)


def shared_links_open(workspace: Workspace, kind: str, object_id: UUID) -> QuerySet[SharedLink]:
    """The links to one thing that work now."""
    return SharedLink.objects.filter(
        workspace=workspace, kind=kind, object_id=object_id, revoked_at__isnull=True, expires_at__gt=timezone.now()
    ).select_related("created_by")


def shared_link_opened(key: str, kind: str) -> SharedLink | None:
    """The link that this key opens; None for one that is forged, expired, revoked, or of a team that was deleted."""
    try:
        id = UUID(_signer.unsign(key))
    except (BadSignature, ValueError):
        return None
    return SharedLink.objects.filter(
        pk=id, kind=kind, revoked_at__isnull=True, expires_at__gt=timezone.now(), workspace__closed_at__isnull=True
    ).first()
