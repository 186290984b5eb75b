"""People as django-allauth needs them: each with one address that is proven or not, and those that come by SSO."""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import IntegrityError, transaction

from delivery.sealing import reseal, reseal_rows
from workspaces.models import Membership, Role, User, Workspace
from workspaces.services import audit, member_add

logger = logging.getLogger(__name__)
LONGEST_ADDRESS = 254


def address_ensure(*, user: User) -> None:
    """Note the person's address, unless it is noted already.

    People made by an invitation or at the command line are known to whoever made them; only who signs up by
    themselves has to prove that the address is theirs.
    """
    if len(user.email) > LONGEST_ADDRESS or EmailAddress.objects.filter(user=user, primary=True).exists():
        return
    email = user.email.lower()
    try:
        with transaction.atomic():
            EmailAddress.objects.create(user=user, email=email, primary=True, verified=True)
    except IntegrityError:
        # Someone else has proven this address; it cannot be proven twice.
        EmailAddress.objects.get_or_create(user=user, email=email, defaults={"primary": True})


def address_proven(user: User) -> bool:
    return not EmailAddress.objects.filter(user=user, primary=True, verified=False).exists()


@transaction.atomic
def person_from_sso(*, user: User, provider: str) -> None:
    """Record a person whom the provider brought, and let them join the team that is set for it."""
    audit(workspace=None, actor=None, action="user.create", obj=user, detail={"by": provider})
    sso = settings.OIDC
    if sso is None or not sso.workspace:
        return
    team = Workspace.objects.filter(slug=sso.workspace).first()
    if team is None:
        logger.error("OIDC_WORKSPACE names %r, and there is no such workspace; %s joins none", sso.workspace, user)
        return
    if not Membership.objects.filter(workspace=team, user=user).exists():
        member_add(workspace=team, user=user, role=Role[sso.role.upper()], actor=user)


SEALED = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


def factors_reseal() -> tuple[int, int]:
    """Bring the keys of all authenticators to the newest SECRET_KEY; how many were, and how many no known key opens."""
    return reseal_rows(Authenticator.objects.filter(type__in=SEALED), _reseal)


def _reseal(row: Authenticator) -> list[str]:
    field = SEALED[Authenticator.Type(row.type)]
    row.data[field] = reseal(row.data[field])
    return ["data"]


def note(user: User, action: str, **detail: Any) -> None:
    """A line in the audit log about a person's own account."""
    audit(workspace=None, actor=user, action=action, obj=user, detail=detail)
