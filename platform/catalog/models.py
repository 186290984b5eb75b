"""What training reads and makes: data, rewards, base models, checkpoints, models; all versioned, none overwritten."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower

from workspaces.models import Project


class Dataset(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint("project", Lower("name"), name="dataset_name_in_project")]

    def __str__(self) -> str:
        return self.name


class DatasetVersion(models.Model):
    """One uploaded file, byte for byte as it came, with the report of its check."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    file_name = models.CharField(max_length=255)
    object_key = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    rows = models.BigIntegerField()
    usable_rows = models.BigIntegerField()
    report = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    workspace_path = "dataset__project__workspace_id"

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["dataset", "number"], name="dataset_version_number"),
            models.CheckConstraint(condition=models.Q(usable_rows__lte=models.F("rows")), name="usable_rows_are_rows"),
        ]

    def __str__(self) -> str:
        return f"{self.dataset.name} v{self.number}"

    @property
    def source(self) -> str:
        """How a task spec names it."""
        return f"dataset:{self.dataset_id}@{self.number}"


class RewardConfig(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="rewards")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint("project", Lower("name"), name="reward_name_in_project")]

    def __str__(self) -> str:
        return self.name


class RewardVersion(models.Model):
    """A reward as it stood when a job used it; ``spec`` is a ``trainers.rewards.spec.RewardSpec``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    reward = models.ForeignKey(RewardConfig, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    workspace_path = "reward__project__workspace_id"

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["reward", "number"], name="reward_version_number")]

    def __str__(self) -> str:
        return f"{self.reward.name} v{self.number}"


class BaseModel(models.Model):
    """A model one can start from; shared by all workspaces of the installation."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=400, unique=True)
    title = models.CharField(max_length=200)
    source = models.CharField(max_length=1000)
    parameters = models.BigIntegerField()
    license = models.CharField(max_length=100, blank=True)
    origin = models.TextField(blank=True)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["parameters", "name"]

    def __str__(self) -> str:
        return self.title


class Checkpoint(models.Model):
    """A committed state of a run: it counts once this row exists, and names what wrote it by ``(kind, id, epoch)``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="checkpoints")
    made_by_kind = models.CharField(max_length=20)
    made_by_id = models.UUIDField()
    epoch = models.PositiveIntegerField()
    step = models.BigIntegerField()
    name = models.CharField(max_length=200)
    uri = models.CharField(max_length=1000)
    format = models.CharField(max_length=20)
    files = models.JSONField(default=list)
    size = models.BigIntegerField(default=0)
    final = models.BooleanField(default=False)
    # Kept by a person: never deleted to make room for newer ones.
    kept = models.BooleanField(default=False)
    # Found unusable when a run wanted to go on from it.
    damaged = models.BooleanField(default=False)
    # When the state it holds was taken: what was done after that is not in it.
    taken_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["-step"]
        constraints = [
            models.UniqueConstraint(
                fields=["made_by_kind", "made_by_id", "epoch", "name"], name="one_checkpoint_per_name"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (step {self.step})"


class TrainedModel(models.Model):
    """A name in the registry; its versions are what jobs made."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="models")
    name = models.CharField(max_length=200)
    # Markdown, shown only through ``workspaces.markdown``.
    description = models.TextField(blank=True)
    tags = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint("project", Lower("name"), name="model_name_in_project")]

    def __str__(self) -> str:
        return self.name


class ModelVersion(models.Model):
    """One trained adapter of a model. Merged weights are made from it when somebody first asks for them."""

    class Merged(models.TextChoices):
        NOT_ASKED = "", "not asked for"
        MAKING = "making", "being made"
        READY = "ready", "ready"
        FAILED = "failed", "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    model = models.ForeignKey(TrainedModel, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    checkpoint = models.OneToOneField(Checkpoint, on_delete=models.PROTECT, related_name="model_version")
    base_model = models.ForeignKey(BaseModel, on_delete=models.PROTECT, related_name="versions")
    made_by_kind = models.CharField(max_length=20)
    made_by_id = models.UUIDField()
    evaluation = models.JSONField(default=dict)
    # Markdown, shown only through ``workspaces.markdown``.
    notes = models.TextField(blank=True)
    # The platform's own version, and its commit where that is known, when this was made.
    made_with = models.CharField(max_length=100, blank=True)
    merged = models.CharField(max_length=10, choices=Merged.choices, default=Merged.NOT_ASKED, blank=True)
    merged_uri = models.CharField(max_length=1000, blank=True)
    merged_error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "model__project__workspace_id"

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["model", "number"], name="model_version_number")]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.number}"

    @property
    def source(self) -> str:
        """How a task spec names it."""
        return f"model:{self.model_id}@{self.number}"


class ModelAlias(models.Model):
    """A name that points to one version of a model and can be moved to another, such as ``production``."""

    id = models.BigAutoField(primary_key=True)
    model = models.ForeignKey(TrainedModel, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=64)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="aliases")
    moved_at = models.DateTimeField(auto_now=True)

    workspace_path = "model__project__workspace_id"

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["model", "name"], name="one_version_per_alias")]

    def __str__(self) -> str:
        return self.name


class AliasMove(models.Model):
    """One move of an alias: ``from_number`` None where it was new, ``to_number`` None where it was taken away."""

    id = models.BigAutoField(primary_key=True)
    model = models.ForeignKey(TrainedModel, on_delete=models.CASCADE, related_name="alias_moves")
    name = models.CharField(max_length=64)
    from_number = models.PositiveIntegerField(null=True)
    to_number = models.PositiveIntegerField(null=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_label = models.CharField(max_length=320)
    at = models.DateTimeField(auto_now_add=True)

    workspace_path = "model__project__workspace_id"

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name}: {self.from_number} → {self.to_number}"


class Discarded(models.Model):
    """A folder in storage that nothing refers to any more; the row goes once the folder has."""

    id = models.BigAutoField(primary_key=True)
    uri = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.uri
