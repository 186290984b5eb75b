"""How jobs came to be: from which job one was copied and what was foretold of it; and sweeps, families of jobs."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from workspaces.models import Project


class Submission(models.Model):
    """What was known of a job when it was submitted. ``estimate``: what the page said of seconds and cost."""

    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, primary_key=True, related_name="submission")
    copied_from = models.ForeignKey("jobs.Job", on_delete=models.SET_NULL, null=True, related_name="copies")
    estimate = models.JSONField(null=True)

    workspace_path = "job__project__workspace_id"

    def __str__(self) -> str:
        return f"submission of {self.job_id}"


class Sweep(models.Model):
    """A family of jobs that try values of one task's fields; ``spec`` is a ``trainers.sweep.Sweep``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="sweeps")
    name = models.CharField(max_length=200)
    spec = models.JSONField()
    idempotency_key = models.CharField(max_length=200)
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    # Of successive halving: the rung that runs, from 0.
    rung = models.PositiveIntegerField(default=0)
    stopped = models.BooleanField(default=False)
    # Why it could not go on by itself; empty as long as it can.
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["project", "idempotency_key"], name="one_sweep_per_submission"),
        ]
        indexes = [models.Index(fields=["project", "-created_at"], name="sweep_by_project")]

    def __str__(self) -> str:
        return self.name


class SweepMember(models.Model):
    """One job of a sweep: the ``place``-th of its rung."""

    id = models.BigAutoField(primary_key=True)
    sweep = models.ForeignKey(Sweep, on_delete=models.CASCADE, related_name="members")
    job = models.OneToOneField("jobs.Job", on_delete=models.CASCADE, related_name="sweep_member")
    rung = models.PositiveIntegerField(default=0)
    place = models.PositiveIntegerField()

    workspace_path = "sweep__project__workspace_id"

    class Meta:
        ordering = ["rung", "place"]
        constraints = [models.UniqueConstraint(fields=["sweep", "rung", "place"], name="sweep_member_place")]

    def __str__(self) -> str:
        return f"{self.sweep} {self.rung}.{self.place}"
