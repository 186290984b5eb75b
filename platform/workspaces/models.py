"""Who works here: people, their teams with roles, invitations, projects, tokens, secrets, and what was done by whom."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email).strip(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractBaseUser, PermissionsMixin):
    """A person. They sign in with their e-mail address, in whatever case they type it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(max_length=320, unique=True)
    name = models.CharField(max_length=150, blank=True)
    time_zone = models.CharField(max_length=64, blank=True)
    theme = models.CharField(
        max_length=5, choices=[("auto", "as the system"), ("light", "light"), ("dark", "dark")], default="auto"
    )
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    joined_at = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_any_case")]

    def __str__(self) -> str:
        return self.name or self.email


class Role(models.IntegerChoices):
    """What a member may do; a larger number may do all that a smaller one may."""

    VIEWER = 10, "viewer"
    EDITOR = 20, "editor"
    ADMIN = 30, "admin"
    OWNER = 40, "owner"


class Workspace(models.Model):
    """A team and everything it owns.

    ``quota_bytes`` None means the installation's own limit, 0 none at all. From ``closed_at`` on it has no members, and
    it is removed with all it holds as soon as nothing of it runs.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    slug = models.SlugField(max_length=60, unique=True)
    quota_bytes = models.BigIntegerField(null=True)
    closed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="workspaces"
    )

    workspace_path = "id"

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.PositiveSmallIntegerField(choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "workspace_id"

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="one_membership_per_person"),
            models.CheckConstraint(condition=models.Q(role__in=[10, 20, 30, 40]), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}: {self.get_role_display()}"


class Project(models.Model):
    """A piece of work of a team: it holds jobs, datasets, rewards and models."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="projects")
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint("workspace", Lower("name"), name="project_name_in_workspace")]

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A program's key for one workspace: only its SHA-256 is kept, the key itself is shown once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    role = models.PositiveSmallIntegerField(choices=Role.choices, default=Role.EDITOR)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"


class Invitation(models.Model):
    """A place in a team, offered to one address: taken once, by whoever reads the mail, until it expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=320)
    role = models.PositiveSmallIntegerField(choices=Role.choices)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    accepted_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    revoked_at = models.DateTimeField(null=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                "workspace",
                Lower("email"),
                condition=models.Q(accepted_at__isnull=True, revoked_at__isnull=True),
                name="one_open_invitation",
            ),
            models.CheckConstraint(condition=models.Q(role__in=[10, 20, 30, 40]), name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.email} as {self.get_role_display()}"


class Secret(models.Model):
    """A password or key that the platform uses for a team. ``sealed`` is encrypted; no page ever shows the value."""

    class Kind(models.TextChoices):
        JUDGE = "judge", "key of a judge model"
        HUB = "hub", "token of a model hub"
        S3 = "s3", "storage credential"
        OTHER = "other", "other"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=64)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.OTHER)
    sealed = models.TextField()
    hint = models.CharField(max_length=4, blank=True)
    set_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    set_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint("workspace", Lower("name"), name="secret_name_in_workspace")]

    def __str__(self) -> str:
        return self.name


class SharedLink(models.Model):
    """A link that shows one thing to whoever has it, until it expires or is revoked. The key in it signs this id."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="shared_links")
    kind = models.CharField(max_length=20)
    object_id = models.UUIDField()
    label = models.CharField(max_length=300)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["kind", "object_id"], name="shared_link_of")]

    def __str__(self) -> str:
        return self.label


class AuditEvent(models.Model):
    """Who did what to which object. Written by services in the same transaction, never changed."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, null=True, related_name="audit_events")
    actor = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_label = models.CharField(max_length=320)
    action = models.CharField(max_length=80)
    object_kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=64)
    object_label = models.CharField(max_length=300, blank=True)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["workspace", "-id"], name="audit_by_workspace")]

    def __str__(self) -> str:
        return f"{self.actor_label} {self.action} {self.object_kind} {self.object_label}"


class RateBucket(models.Model):
    """How much of a rate limit someone has left. ``key`` is a hash of the limit and of whom it counts."""

    key = models.CharField(max_length=64, primary_key=True)
    left = models.FloatField()
    filled_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["filled_at"], name="rate_bucket_age")]

    def __str__(self) -> str:
        return f"{self.left:.1f} left"
