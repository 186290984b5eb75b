"""What happened to a subject (a job, a session, a node): metric points, rollouts and log lines.

A subject is named by ``(subject_kind, subject_id)``, so this floor knows none of those above it. Every row carries
``(attempt, seq)``, its number in the attempt's journal: a replay writes nothing twice, and readers ask for what lies
after the last number they have.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from workspaces.models import Project


class Series(models.Model):
    """One metric of one subject, with its latest value: lists read this table and never the points."""

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    key = models.CharField(max_length=200)
    points = models.BigIntegerField(default=0)
    last_step = models.BigIntegerField(null=True)
    last_value = models.FloatField(null=True)
    last_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_kind", "subject_id", "key"], name="one_series_per_key"),
        ]

    def __str__(self) -> str:
        return self.key


class MetricPoint(models.Model):
    """One value; ``value`` may be NaN or infinite. ``active_s`` and ``tokens`` are the other x-axes of a chart."""

    id = models.BigAutoField(primary_key=True)
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+", db_index=False)
    attempt = models.PositiveIntegerField()
    seq = models.BigIntegerField()
    step = models.BigIntegerField()
    value = models.FloatField()
    at = models.DateTimeField()
    active_s = models.FloatField(default=0)
    tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "attempt", "seq"], name="one_point_per_event"),
        ]
        indexes = [models.Index(fields=["series", "step", "attempt"], name="point_by_step")]

    def __str__(self) -> str:
        return f"{self.step}: {self.value}"


class MetricBucket(models.Model):
    """What a chart needs of the steps ``bucket · 2^level`` and following of a long series (records/rollup.py).

    ``low`` and ``high`` are ``[value, step, t, active_s, tokens]`` of the extremes, ``last`` is ``[step, value, ...]``.
    """

    id = models.BigAutoField(primary_key=True)
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+", db_index=False)
    level = models.PositiveSmallIntegerField()
    bucket = models.BigIntegerField()
    points = models.BigIntegerField()
    gaps = models.BigIntegerField()
    low = ArrayField(models.FloatField(), null=True)
    high = ArrayField(models.FloatField(), null=True)
    last = ArrayField(models.FloatField())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "level", "bucket"], name="one_bucket_per_place"),
        ]

    def __str__(self) -> str:
        return f"bucket {self.bucket} of 2^{self.level} steps"


class Rollout(models.Model):
    """One sampled completion with its reward and the parts the reward is made of."""

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    seq = models.BigIntegerField()
    step = models.BigIntegerField()
    phase = models.CharField(max_length=10)
    group = models.PositiveIntegerField(default=0)
    index = models.PositiveIntegerField(default=0)
    prompt = models.TextField()
    prompt_key = models.CharField(max_length=64)
    completion = models.TextField()
    answer = models.TextField(null=True)  # noqa: DJ001  no answer is not an empty answer
    reward = models.FloatField()
    parts = models.JSONField(default=dict)
    accurate = models.BooleanField(default=False)
    tokens = models.PositiveIntegerField(default=0)
    truncated = models.BooleanField(default=False)
    greedy = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject_kind", "subject_id", "attempt", "seq"], name="one_rollout_per_event"
            ),
        ]
        indexes = [
            models.Index(fields=["subject_kind", "subject_id", "step", "group", "index"], name="rollout_by_step")
        ]

    def __str__(self) -> str:
        return f"step {self.step}, group {self.group}, sample {self.index}"


class LogLine(models.Model):
    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    seq = models.BigIntegerField()
    level = models.CharField(max_length=10)
    text = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_kind", "subject_id", "attempt", "seq"], name="one_line_per_event"),
        ]

    def __str__(self) -> str:
        return self.text[:80]


class Tag(models.Model):
    """A word that people put on a subject to find it again."""

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=20)
    subject_id = models.UUIDField()
    name = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_kind", "subject_id", "name"], name="one_tag_per_subject"),
        ]
        indexes = [models.Index(fields=["subject_kind", "name"], name="tag_by_name")]

    def __str__(self) -> str:
        return self.name


class SavedView(models.Model):
    """A list as someone filtered it, under a name: the query string of its page. Shared ones show to the whole team."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=20)
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=2000)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "project__workspace_id"

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "page", "owner", "name"], name="one_view_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


class ChartView(models.Model):
    """How a person last set the charts of a project: the query string of the toolbar."""

    id = models.BigAutoField(primary_key=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    query = models.CharField(max_length=500)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="one_chart_view_per_person")]

    def __str__(self) -> str:
        return self.query
