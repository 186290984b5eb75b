"""The form that takes up a paused job: fields only for the limits of the budget that it has."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms

from jobs import budget
from jobs.models import Job


class ResumeForm(forms.Form):
    """``limit`` is the limit that is used up, if one is: its field must then be raised."""

    amount = forms.DecimalField(label="Budget in money", min_value=Decimal("0.000001"), max_digits=15, decimal_places=6)
    minutes = forms.FloatField(label="Budget in minutes of running", min_value=0.01, max_value=1e7)

    def __init__(self, *args: Any, job: Job, **kwargs: Any) -> None:
        limits = job.spec.get("budget") or {}
        kwargs.setdefault("initial", {name: limits.get(name) for name in ("amount", "minutes")})
        super().__init__(*args, **kwargs)
        self.limit = budget.reached(job)
        for name in ("amount", "minutes"):
            if limits.get(name) is None:
                del self.fields[name]
                continue
            self.fields[name].widget.attrs["class"] = "num"
