"""A job, its attempts, and its timeline."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from catalog.models import BaseModel, Checkpoint, DatasetVersion, ModelVersion, RewardVersion
from compute.models import Grant
from jobs.states import ACTIVE, State
from workspaces.models import Project

STATES = [(state.value, state.value) for state in State]


class Job(models.Model):
    """A task spec someone asked to run. Its progress columns are what supervision last heard: lists read one table."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="jobs")
    name = models.CharField(max_length=200)
    spec = models.JSONField()
    state = models.CharField(max_length=12, choices=STATES, default=State.QUEUED)
    reason = models.TextField(blank=True)
    advice = models.TextField(blank=True)
    failure_kind = models.CharField(max_length=40, blank=True)
    failure_field = models.CharField(max_length=200, blank=True)
    idempotency_key = models.CharField(max_length=200)
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    dataset_version = models.ForeignKey(DatasetVersion, on_delete=models.PROTECT, related_name="jobs")
    evaluation_version = models.ForeignKey(DatasetVersion, on_delete=models.PROTECT, null=True, related_name="+")
    reward_version = models.ForeignKey(RewardVersion, on_delete=models.PROTECT, null=True, related_name="jobs")
    base_model = models.ForeignKey(BaseModel, on_delete=models.PROTECT, related_name="jobs")
    model_version = models.OneToOneField(ModelVersion, on_delete=models.SET_NULL, null=True, related_name="job")

    epoch = models.PositiveIntegerField(default=1)
    # Attempts in a row that ended by a fault of the platform without a new checkpoint.
    fruitless = models.PositiveIntegerField(default=0)
    step = models.BigIntegerField(default=0)
    total_steps = models.BigIntegerField(null=True)
    phase = models.CharField(max_length=20, blank=True)
    fraction = models.FloatField(default=0)
    eta_s = models.FloatField(null=True)
    result = models.JSONField(null=True)
    report_key = models.CharField(max_length=300, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["project", "idempotency_key"], name="one_job_per_submission"),
            models.CheckConstraint(condition=models.Q(state__in=[s.value for s in State]), name="job_state_known"),
        ]
        indexes = [
            models.Index(fields=["project", "-created_at"], name="job_by_project"),
            models.Index(
                fields=["state"], condition=models.Q(state__in=sorted(s.value for s in ACTIVE)), name="job_active"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Attempt(models.Model):
    """One run of a job on leased devices. ``number`` is its epoch: the fencing token of everything it writes.

    ``cursor`` is the last journal number whose rows are in the database; it moves in the same transaction as they come.
    ``report`` is the driver's last word, the journal's closing ``state`` event; None until it has come.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    grant = models.OneToOneField(Grant, on_delete=models.PROTECT, related_name="attempt")
    driver = models.CharField(max_length=100)
    node_address = models.CharField(max_length=255, blank=True)
    node_ray_id = models.CharField(max_length=64, blank=True)
    pid = models.PositiveIntegerField(null=True)
    cursor = models.BigIntegerField(default=0)
    report = models.JSONField(null=True)
    # The step it began at (0: the beginning) and the newest step whose metrics it has written.
    first_step = models.BigIntegerField(default=0)
    last_step = models.BigIntegerField(default=0)
    resumed_from = models.ForeignKey(Checkpoint, on_delete=models.SET_NULL, null=True, related_name="+")
    # Why it is to write a checkpoint and leave its node; empty as long as it is not.
    leaving = models.CharField(max_length=300, blank=True)
    outcome = models.CharField(max_length=40, blank=True)
    outcome_detail = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    watched_by = models.CharField(max_length=100, blank=True)
    watched_until = models.DateTimeField(null=True)

    workspace_path = "job__project__workspace_id"

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="attempt_number")]
        indexes = [models.Index(fields=["created_at"], condition=models.Q(ended_at__isnull=True), name="attempt_open")]

    def __str__(self) -> str:
        return f"{self.job} attempt {self.number}"


class TimelineEntry(models.Model):
    """One change of a job's life: who or what made it, and why. The truth for mails, bills and the page's timeline."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="timeline")
    attempt = models.PositiveIntegerField(null=True)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_label = models.CharField(max_length=320)
    from_state = models.CharField(max_length=12, choices=STATES, blank=True)
    to_state = models.CharField(max_length=12, choices=STATES, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}: {self.reason}"


# Tables of their own module that belong to this app.
from jobs.family_models import Submission, Sweep, SweepMember  # noqa: E402

__all__ = ["Attempt", "Job", "Submission", "Sweep", "SweepMember", "TimelineEntry"]
