"""Secrets of a team: written once, encrypted at rest, never shown again; only the platform itself reads them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from delivery.sealing import Unreadable, reseal, reseal_rows, seal, unseal
from workspaces.errors import Refused
from workspaces.masking import NOTHING, SHORTEST, Mask
from workspaces.models import Secret, User, Workspace
from workspaces.services import audit

logger = logging.getLogger(__name__)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
LONGEST = 20_000
HINT_FROM = 16
USED_EVERY_S = 60


@transaction.atomic
def secret_set(*, workspace: Workspace, name: str, value: str, actor: User, kind: str = Secret.Kind.OTHER) -> Secret:
    """Keep ``value`` under ``name``, in place of what was there.

    Raises :class:`Refused` for a bad name or kind, and for a value that is too short to be told apart in a log.
    """
    # Forms send the lines of a key file with the ends of another system.
    name, value = name.strip(), value.replace("\r\n", "\n").strip()
    if not NAME.fullmatch(name):
        raise Refused(
            "A name begins with a letter and has only letters, digits, and _ . - (64 at most), such as HF_TOKEN.",
            "name",
        )
    if kind not in Secret.Kind.values:
        raise Refused(f"The kind is one of: {', '.join(Secret.Kind.values)}.", "kind")
    if not SHORTEST <= len(value) <= LONGEST:
        raise Refused(f"The value has {SHORTEST} to {LONGEST:,} characters; this one has {len(value):,}.", "value")
    if "\x00" in value:
        raise Refused("The value contains the NUL character, which no key has.", "value")
    Workspace.objects.select_for_update().filter(pk=workspace.pk).first()
    known = Secret.objects.filter(workspace=workspace, name__iexact=name).first()
    secret = known or Secret(workspace=workspace, name=name)
    secret.kind, secret.sealed, secret.set_by, secret.set_at = kind, seal(value), actor, timezone.now()
    # The last characters tell which key it is; of a short one they would tell too much.
    secret.hint = value[-4:] if len(value) >= HINT_FROM and value[-4:].isprintable() else ""
    secret.last_used_at = None
    secret.save()
    action = "secret.replace" if known else "secret.create"
    audit(workspace=workspace, actor=actor, action=action, obj=secret, detail={"kind": kind})
    return secret


@transaction.atomic
def secret_delete(*, secret: Secret, actor: User) -> None:
    """Remove a secret for good."""
    audit(workspace=secret.workspace, actor=actor, action="secret.delete", obj=secret)
    secret.delete()


def secret_value(workspace: Workspace | UUID, name: str) -> str:
    """The value, for the platform's own use: never put it into an answer, a log, or a task's arguments.

    Raises :class:`Refused` when there is none of this name, or when it cannot be read any more.
    """
    key = workspace.pk if isinstance(workspace, Workspace) else workspace
    secret = Secret.objects.filter(workspace_id=key, name__iexact=name).first()
    if secret is None:
        raise Refused(f"The workspace has no secret called {name}. An admin adds it on the page Secrets.", "secret")
    try:
        value = unseal(secret.sealed)
    except Unreadable:
        raise Refused(
            f"The secret {name} cannot be read any more, since the installation's SECRET_KEY was changed. "
            f"An admin sets it again on the page Secrets.",
            "secret",
        ) from None
    now = timezone.now()
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - timedelta(seconds=USED_EVERY_S))
    Secret.objects.filter(stale, pk=secret.pk).update(last_used_at=now)
    return value


def mask_of(workspace_id: UUID) -> Mask:
    """Hides the values of all secrets of a workspace; one query, and nothing to do where there are none."""
    return _mask(Secret.objects.filter(workspace_id=workspace_id).values_list("sealed", flat=True))


def mask_of_project(project_id: UUID) -> Mask:
    """The same, for a caller that knows only the project."""
    return _mask(Secret.objects.filter(workspace__projects=project_id).values_list("sealed", flat=True))


def mask_of_person(user: User) -> Mask:
    """Hides the values of all secrets of the teams a person is in."""
    return _mask(Secret.objects.filter(workspace__memberships__user=user).values_list("sealed", flat=True))


def _mask(sealed: Iterable[str]) -> Mask:
    return _mask_of(*sealed)


# Asked for at every stretch of every journal: opening the texts again each time would cost more than the rest.
@lru_cache(maxsize=256)
def _mask_of(*sealed: str) -> Mask:
    values = []
    for text in sealed:
        try:
            values.append(unseal(text))
        except Unreadable:
            logger.warning("a secret cannot be read any more, so it cannot be masked either")
    return Mask(values) if values else NOTHING


def secrets_reseal() -> tuple[int, int]:
    """Bring every secret to the newest SECRET_KEY; returns how many were, and how many no known key opens."""
    return reseal_rows(Secret.objects.all(), _reseal)


def _reseal(secret: Secret) -> list[str]:
    secret.sealed = reseal(secret.sealed)
    return ["sealed"]
