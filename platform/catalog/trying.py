"""Trying a reward before it is used: on samples of a dataset, or on pasted text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog import selectors
from catalog.models import DatasetVersion
from catalog.previews import PreviewRow, preview_rows
from trainers.recipes.context import ScoredInput
from trainers.rewards.scorer import try_reward
from trainers.rewards.spec import RewardSpec
from workspaces.errors import Refused
from workspaces.models import Project, User, Workspace
from workspaces.vault import secret_value

SAMPLES = 3
SECONDS = 15.0


@dataclass(frozen=True)
class Case:
    """One completion to be scored, and what it is: known to be ``right`` or ``wrong``, or neither (``other``)."""

    kind: Literal["right", "wrong", "other"]
    label: str
    prompt: str
    completion: str
    answer: str | None
    row: dict[str, Any]


@dataclass(frozen=True)
class Sample:
    case: Case
    result: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What :func:`try_out` found; ``result`` of each sample is what ``trainers.rewards.scorer.try_reward`` gives."""

    samples: list[Sample]
    seconds: float

    @property
    def separates(self) -> bool | None:
        """Whether right completions got more than wrong ones; None where there are not both."""
        right = [s.result["total"] for s in self.samples if s.case.kind == "right"]
        wrong = [s.result["total"] for s in self.samples if s.case.kind == "wrong"]
        if not right or not wrong or None in (*right, *wrong):
            return None
        return min(right) > max(wrong)


class TryForm(forms.Form):
    """Where the samples come from: the latest version of a dataset, or three texts."""

    mark_optional = False

    source = forms.ChoiceField(label=gettext_lazy("Samples"), required=False)
    prompt = forms.CharField(
        label=gettext_lazy("Prompt"), required=False, max_length=20_000, widget=forms.Textarea(attrs={"rows": 2})
    )
    completion = forms.CharField(
        label=gettext_lazy("Completion"),
        required=False,
        strip=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("What the model might write."),
    )
    answer = forms.CharField(
        label=gettext_lazy("Reference answer"),
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 1}),
    )

    def __init__(self, project: Project, user: User, data: Any = None) -> None:
        super().__init__(data, prefix="try")
        self.versions: dict[str, DatasetVersion] = {}
        choices = [("", _("pasted text"))]
        for dataset in selectors.datasets_visible_to(user).filter(project=project):
            newest = next(iter(dataset.versions.all()), None)
            if newest is not None:
                self.versions[str(newest.pk)] = newest
                choices.append((str(newest.pk), f"{dataset.name} v{newest.number}"))
        field = self.fields["source"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.initial = choices[1][0] if len(choices) > 1 else ""

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors and not data["source"] and not data["completion"]:
            self.add_error("completion", _("Paste a completion to score, or choose a dataset."))
        return data

    def cases(self) -> list[Case]:
        """What to score. From a dataset: for some rows the reference answer, and another row's answer."""
        data = self.cleaned_data
        version = self.versions.get(data["source"])
        if version is None:
            answer = data["answer"] or None
            row = {"prompt": data["prompt"], "answer": answer}
            return [
                Case("other", _("pasted text"), data["prompt"], data["completion"].replace("\r\n", "\n"), answer, row)
            ]
        return _cases_of(preview_rows(version)[: SAMPLES + 1])


def _cases_of(rows: Sequence[PreviewRow]) -> list[Case]:
    cases = []
    for index, row in enumerate(rows[:SAMPLES]):
        if row.answer is None:
            cases.append(Case("other", _("an empty completion"), row.prompt, "", None, row.raw))
            continue
        cases.append(Case("right", _("the reference answer"), row.prompt, row.answer, row.answer, row.raw))
        others = [other.answer for other in (*rows[index + 1 :], *rows[:index])]
        other = next((answer for answer in others if answer is not None and answer != row.answer), None)
        if other is not None:
            cases.append(Case("wrong", _("another row's answer"), row.prompt, other, row.answer, row.raw))
    return cases


def try_out(spec: RewardSpec, cases: Sequence[Case], workspace: Workspace) -> Outcome:
    """Score the cases in the sandbox, in a bounded time; judges are asked with the keys of ``workspace``."""
    began = time.monotonic()
    secrets = {}
    for name in spec.secrets:
        with suppress(Refused):  # the component says that it has none
            secrets[name] = secret_value(workspace, name)
    inputs = [ScoredInput(case.prompt, case.completion, case.answer, case.row) for case in cases]
    results = try_reward(spec, inputs, seconds=SECONDS, secrets=secrets)
    samples = [Sample(case, result) for case, result in zip(cases, results, strict=True)]
    return Outcome(samples, time.monotonic() - began)
