"""Money: prices, what a lease's seconds were used for, and the ledger.

Leases meter, usage divides, ledger lines state the amount. Amounts are ``Decimal``; a line is rounded once and never
changes: a correction is a new, negative line.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models

from compute.models import Lease, Pool
from workspaces.models import Project, Workspace


class Price(models.Model):
    """What a device of a pool costs per hour from an instant on, until a later row says otherwise."""

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="prices")
    per_device_hour = models.DecimalField(max_digits=12, decimal_places=6, validators=[MinValueValidator(0)])
    currency = models.CharField(max_length=3, default="USD")
    starts_at = models.DateTimeField()

    class Meta:
        ordering = ["-starts_at"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "starts_at"], name="one_price_at_a_time"),
            models.CheckConstraint(condition=models.Q(per_device_hour__gte=0), name="price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.pool}: {self.per_device_hour} {self.currency} per device and hour"


class Usage(models.Model):
    """Seconds of one lease that one user of it had, by what they were: the parts add up to the lease."""

    class Category(models.TextChoices):
        WORK = "work", "work"
        LOST = "lost", "lost to a fault of the platform"

    id = models.BigAutoField(primary_key=True)
    lease = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="usage")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="usage")
    used_by_kind = models.CharField(max_length=20)
    used_by_id = models.UUIDField()
    epoch = models.PositiveIntegerField()
    category = models.CharField(max_length=10, choices=Category.choices)
    seconds = models.DecimalField(max_digits=18, decimal_places=6)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lease", "used_by_kind", "used_by_id", "category"], name="usage_once"),
            models.CheckConstraint(condition=models.Q(seconds__gte=0), name="usage_not_negative"),
        ]
        indexes = [models.Index(fields=["used_by_kind", "used_by_id"], name="usage_by_user")]

    def __str__(self) -> str:
        return f"{self.seconds} s {self.category}"


class LedgerLine(models.Model):
    """One line of the bill: seconds × price, rounded once to a millionth. Immutable."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="ledger")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="ledger")
    usage = models.ForeignKey(Usage, on_delete=models.PROTECT, related_name="lines")
    price = models.ForeignKey(Price, on_delete=models.PROTECT, related_name="lines")
    corrects = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="corrections")
    used_by_kind = models.CharField(max_length=20)
    used_by_id = models.UUIDField()
    seconds = models.DecimalField(max_digits=18, decimal_places=6)
    per_device_hour = models.DecimalField(max_digits=12, decimal_places=6)
    amount = models.DecimalField(max_digits=18, decimal_places=6)
    currency = models.CharField(max_length=3)
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    workspace_path = "workspace_id"

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["usage", "price"],
                condition=models.Q(corrects__isnull=True),
                name="one_line_per_usage_and_price",
            ),
        ]
        indexes = [models.Index(fields=["used_by_kind", "used_by_id"], name="line_by_user")]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError("A ledger line never changes; write a correcting line.")
        super().save(*args, **kwargs)
