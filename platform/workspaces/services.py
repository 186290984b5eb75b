"""Everything that changes teams, projects and people's settings; each leaves a line in the audit log."""

from __future__ import annotations

import secrets
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, models, transaction
from django.utils.text import slugify

from workspaces.errors import Refused
from workspaces.models import AuditEvent, Membership, Project, Role, User, Workspace


def audit(
    *,
    workspace: Workspace | None,
    actor: User | None,
    action: str,
    obj: models.Model,
    detail: dict[str, Any] | None = None,
) -> AuditEvent:
    """Record that ``actor`` (None: the platform itself) did ``action`` to ``obj``. Call it inside the transaction."""
    return AuditEvent.objects.create(
        workspace=workspace,
        actor=actor,
        actor_label=actor.email if actor else "platform",
        action=action,
        object_kind=str(obj._meta.verbose_name),
        object_id=str(obj.pk),
        object_label=str(obj)[:300],
        detail=detail or {},
    )


@transaction.atomic
def user_create(*, email: str, password: str, name: str = "", actor: User | None = None) -> User:
    """A new person. Raises :class:`Refused` for a bad address, a weak password, or an address already in use."""
    email = email.strip()
    try:
        validate_email(email)
    except ValidationError:
        raise Refused("This is not an e-mail address.", "email") from None
    if User.objects.filter(email__iexact=email).exists():
        raise Refused(f"There is already a person with the address {email}.", "email")
    try:
        validate_password(password, User(email=email, name=name))
    except ValidationError as error:
        raise Refused(" ".join(error.messages), "password") from None
    user = User.objects.create_user(email, password, name=name)
    audit(workspace=None, actor=actor, action="user.create", obj=user)
    return user


@transaction.atomic
def owner_create(
    *, email: str, password: str, name: str = "", workspace_name: str = "My team", project_name: str = "First project"
) -> tuple[User, Workspace]:
    """An owner with a workspace of their own and one project in it; the installation's first person is its staff."""
    user = user_create(email=email, password=password, name=name)
    if not User.objects.filter(is_staff=True).exists():
        user.is_staff = True
        user.save(update_fields=["is_staff"])
    workspace = workspace_create(name=workspace_name, owner=user)
    project_create(workspace=workspace, name=project_name, actor=user)
    return user, workspace


def may_make_workspaces(user: User) -> bool:
    """Whether the installation lets this person make teams."""
    return user.is_active and (bool(settings.MEMBERS_MAKE_WORKSPACES) or user.is_staff)


@transaction.atomic
def workspace_create(*, name: str, owner: User) -> Workspace:
    """A team with one member, its owner."""
    name = _checked_name(name, "workspace", 100)
    stem = slugify(name)[:50] or "team"
    slug = stem
    while Workspace.objects.filter(slug=slug).exists():
        slug = f"{stem}-{secrets.token_hex(3)}"
    workspace = Workspace.objects.create(name=name, slug=slug)
    Membership.objects.create(workspace=workspace, user=owner, role=Role.OWNER)
    audit(workspace=workspace, actor=owner, action="workspace.create", obj=workspace)
    return workspace


@transaction.atomic
def workspace_rename(*, workspace: Workspace, name: str, actor: User) -> None:
    """Give a team another name. Raises :class:`Refused` when it is empty or too long."""
    name = _checked_name(name, "workspace", 100)
    before = workspace.name
    if name == before:
        return
    workspace.name = name
    workspace.save(update_fields=["name"])
    audit(workspace=workspace, actor=actor, action="workspace.rename", obj=workspace, detail={"from": before})


@transaction.atomic
def quota_set(*, workspace: Workspace, quota_bytes: int | None, actor: User | None = None) -> None:
    """What a team may store: bytes, 0 for any amount, None for the installation's own limit."""
    workspace.quota_bytes = quota_bytes
    workspace.save(update_fields=["quota_bytes"])
    audit(workspace=workspace, actor=actor, action="workspace.quota", obj=workspace, detail={"bytes": quota_bytes})


@transaction.atomic
def member_add(*, workspace: Workspace, user: User, role: Role, actor: User) -> Membership:
    """Make ``user`` a member. Raises :class:`Refused` when they already are one."""
    try:
        with transaction.atomic():
            membership = Membership.objects.create(workspace=workspace, user=user, role=role)
    except IntegrityError:
        raise Refused(f"{user} is already a member of {workspace}.", "user") from None
    audit(workspace=workspace, actor=actor, action="member.add", obj=user, detail={"role": Role(role).label})
    return membership


@transaction.atomic
def project_create(*, workspace: Workspace, name: str, actor: User | None, description: str = "") -> Project:
    """A project in a workspace. Raises :class:`Refused` when its name is empty, too long or taken."""
    name = _checked_name(name, "project", 100)
    try:
        with transaction.atomic():
            project = Project.objects.create(
                workspace=workspace, name=name, description=description.strip(), created_by=actor
            )
    except IntegrityError:
        raise Refused(f"This workspace already has a project called “{name}”. Choose another name.", "name") from None
    audit(workspace=workspace, actor=actor, action="project.create", obj=project)
    return project


@transaction.atomic
def theme_set(*, user: User, theme: str) -> None:
    """Remember a person's choice of colours: auto, light or dark."""
    if theme not in ("auto", "light", "dark"):
        raise Refused("The colours are auto, light or dark.", "theme")
    user.theme = theme
    user.save(update_fields=["theme"])


@transaction.atomic
def profile_update(*, user: User, name: str, time_zone: str) -> None:
    """A person's own name and time zone (empty: UTC)."""
    if time_zone and time_zone not in available_timezones():
        raise Refused(f"There is no time zone called “{time_zone}”.", "time_zone")
    user.name = " ".join(name.split())[:150]
    user.time_zone = time_zone
    user.save(update_fields=["name", "time_zone"])
    audit(workspace=None, actor=user, action="user.update", obj=user)


def _checked_name(name: str, kind: str, longest: int) -> str:
    cleaned = " ".join(name.split())
    if not cleaned:
        raise Refused(f"Give the {kind} a name.", "name")
    if len(cleaned) > longest:
        raise Refused(f"The name of a {kind} has at most {longest} characters; this one has {len(cleaned)}.", "name")
    return cleaned
