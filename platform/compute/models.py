"""Devices and who has them: pools, nodes, requests, grants, leases.

The scheduler turns a waiting request into a grant with leases for *named* devices; the holder claims the grant. Holders
are named by ``(holder_kind, holder_id)`` with the epoch of the attempt, which is the fencing token everywhere.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.utils import timezone


class DeviceKind(models.TextChoices):
    CPU = "cpu", "CPU core"
    GPU = "gpu", "GPU"


class Tier(models.TextChoices):
    RESERVED = "reserved", "reserved"
    SPOT = "spot", "spot"
    ON_DEMAND = "on_demand", "on demand"


class Pool(models.Model):
    """Devices of one kind and tier; the unit that has a price."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    device_kind = models.CharField(max_length=10, choices=DeviceKind.choices)
    tier = models.CharField(max_length=10, choices=Tier.choices)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """A machine Ray has told of. ``devices`` of its pool's kind are numbered 0 … devices - 1."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    ray_id = models.CharField(max_length=64, unique=True)
    address = models.CharField(max_length=255)
    devices = models.PositiveIntegerField()
    alive = models.BooleanField(default=True)
    joined_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["address", "joined_at"]

    def __str__(self) -> str:
        return self.address


class Request(models.Model):
    """A wish for devices. ``why`` is the sentence a person reads while it waits."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        GRANTED = "granted", "granted"
        WITHDRAWN = "withdrawn", "withdrawn"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    holder_kind = models.CharField(max_length=20)
    holder_id = models.UUIDField()
    epoch = models.PositiveIntegerField()
    device_kind = models.CharField(max_length=10, choices=DeviceKind.choices)
    devices = models.PositiveIntegerField()
    tier = models.CharField(max_length=10, choices=Tier.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    position = models.PositiveIntegerField(null=True)
    why = models.CharField(max_length=500, blank=True)
    # Its place in the queue counts from here: what has lost its devices through no fault of its own keeps its place.
    since = models.DateTimeField(default=timezone.now)
    not_before = models.DateTimeField(null=True)
    # Ray ids of nodes to stay away from, as long as there are others.
    avoid = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [
            models.UniqueConstraint(fields=["holder_kind", "holder_id", "epoch"], name="one_request_per_epoch"),
            models.CheckConstraint(condition=models.Q(devices__gte=1), name="request_wants_devices"),
        ]
        indexes = [models.Index(fields=["created_at"], condition=models.Q(state="waiting"), name="request_waiting")]

    def __str__(self) -> str:
        return f"{self.devices} × {self.device_kind} for {self.holder_kind} {self.holder_id}"


class Grant(models.Model):
    """The answer to a request: named devices. It is offered, claimed once by its holder, and released."""

    class State(models.TextChoices):
        OFFERED = "offered", "offered"
        CLAIMED = "claimed", "claimed"
        RELEASED = "released", "released"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    request = models.OneToOneField(Request, on_delete=models.PROTECT, related_name="grant")
    state = models.CharField(max_length=10, choices=State.choices, default=State.OFFERED)
    created_at = models.DateTimeField(auto_now_add=True)
    claimed_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    release_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["created_at"], condition=~models.Q(state="released"), name="grant_open")]

    def __str__(self) -> str:
        return f"grant of {self.request}"


class Lease(models.Model):
    """One device held over a half-open interval of time, [from, to); open-ended while it is held.

    The database itself refuses that a device is held twice at any instant.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    grant = models.ForeignKey(Grant, on_delete=models.PROTECT, related_name="leases")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="leases")
    device = models.PositiveIntegerField()
    during = DateTimeRangeField()

    class Meta:
        ordering = ["during"]
        constraints = [
            ExclusionConstraint(
                name="device_held_once",
                expressions=[
                    ("node", RangeOperators.EQUAL),
                    ("device", RangeOperators.EQUAL),
                    ("during", RangeOperators.OVERLAPS),
                ],
            ),
            models.CheckConstraint(condition=models.Q(during__startswith__isnull=False), name="lease_has_a_beginning"),
        ]

    def __str__(self) -> str:
        return f"{self.node} device {self.device}"
