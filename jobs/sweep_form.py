"""The part of the job form that makes a sweep of it: which fields to try with which values, and how."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from jobs.spec_reading import TextRefused, read_value
from trainers.spec import SpecError, TaskSpec
from trainers.sweep import Sweep, parse_sweep

_RANGE = re.compile(r"^(?P<low>\S+)\s*\.\.\s*(?P<high>\S+?)(?P<words>(?:\s+(?:log|whole))*)$")
METHODS = (
    ("grid", _("Grid: every combination")),
    ("random", _("Random: so many draws")),
    ("halving", _("Successive halving: many short runs, the best go on")),
)


class SweepForm(forms.Form):
    """After ``is_valid()``, :meth:`sweep` makes the description of a task's family."""

    mark_optional = False

    method = forms.ChoiceField(label=_("Method"), choices=METHODS, initial="grid")
    fields_text = forms.CharField(
        label=_("Values to try"),
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text=_(
            "A field of the task and its values on each line, as hyperparameters.learning_rate: 1e-4, 3e-4. "
            "A range for draws: 1e-5 .. 1e-3 log."
        ),
    )
    members = forms.IntegerField(label=_("Draws"), min_value=2, max_value=256, initial=8, required=False)
    first_steps = forms.IntegerField(
        label=_("Steps of the first round"), min_value=1, initial=10, required=False, help_text=_("Halving only.")
    )
    metric = forms.CharField(label=_("Decided by"), max_length=200, initial="eval/reward", required=False)
    lower = forms.BooleanField(label=_("Lower is better"), required=False)
    amount = forms.DecimalField(
        label=_("Budget of all together (USD)"),
        min_value=0,
        max_digits=14,
        decimal_places=6,
        required=False,
        help_text=_("Divided evenly; no job may spend more than its share."),
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, prefix="sweep", auto_id="f-%s")

    def sweep(self, task: TaskSpec) -> Sweep:
        """Raises :class:`SpecError` with the path of what is wrong."""
        data = self.cleaned_data
        common = task.model_dump(mode="json")
        common.pop("budget")
        described: dict[str, Any] = {
            "task": common,
            "method": data["method"],
            "fields": read_fields(data["fields_text"]),
            "members": data["members"] or 8,
            "first_steps": data["first_steps"] or 10,
            "metric": data["metric"] or "eval/reward",
            "higher_is_better": not data["lower"],
            "seed": task.seed,
        }
        if data["amount"]:
            described["budget"] = {"amount": str(data["amount"])}
        return parse_sweep(described)


def read_fields(text: str) -> dict[str, Any]:
    """``path: a, b, c`` and ``path: low .. high [log] [whole]`` by line. Raises :class:`SpecError` by line."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        path, colon, said = (part.strip() for part in line.partition(":"))
        if not colon or not path or not said:
            raise SpecError([(f"line {number}", "write a field, a colon and its values, as seed: 1, 2, 3")])
        if path in found:
            raise SpecError([(f"line {number}", f"{path} stands here twice; put its values on one line")])
        span = _RANGE.match(said)
        if span:
            words = span["words"].split()
            found[path] = {"minimum": span["low"], "maximum": span["high"], "log": "log" in words}
            found[path]["whole"] = "whole" in words
            continue
        try:
            values, _lines = read_value(said if said.startswith("[") else f"[{said}]")
        except TextRefused as refused:
            raise SpecError([(f"line {number}", refused.errors[0].message)]) from None
        found[path] = {"values": values}
    return found
