"""Reading rollouts for an inspector: those of a step under filters, long texts cut, and one prompt over time.

Every question begins at the subject (and mostly its step), which the index ``rollout_by_step`` answers; how many
queries a page takes does not depend on how many rollouts there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left, Length

from records.models import Rollout
from records.selectors import Subject
from records.time_limit import time_limit

# Characters of a text that come with a page; the rest is asked for.
CUT = 4000
MOST = 2000
FOUND = 100
SECONDS = 3


@dataclass(frozen=True)
class Filter:
    """What to keep: every part that is set must hold. ``text`` is looked for in prompt, completion and answer."""

    text: str = ""
    least: float | None = None
    most: float | None = None
    accurate: bool | None = None
    truncated: bool | None = None

    def __bool__(self) -> bool:
        return self != Filter()

    def query(self) -> Q:
        found = Q()
        if self.text:
            found &= (
                Q(completion__icontains=self.text) | Q(prompt__icontains=self.text) | Q(answer__icontains=self.text)
            )
        if self.least is not None:
            found &= Q(reward__gte=self.least)
        if self.most is not None:
            # NaN is above every number in Postgres.
            found &= Q(reward__lte=self.most)
        if self.accurate is not None:
            found &= Q(accurate=self.accurate)
        if self.truncated is not None:
            found &= Q(truncated=self.truncated)
        return found


def rollouts_of_step(subject: Subject, step: int, phase: str, wanted: Filter) -> list[dict[str, Any]]:
    """The rollouts of one step and phase that pass the filter, of the newest attempt that has any of that step.

    Texts have at most ``CUT`` characters; ``prompt_length`` and ``completion_length`` say how long they are.
    Raises :class:`TooSlow`.
    """
    rows = _rows(subject).filter(step=step, phase=phase)
    attempt = rows.order_by("-attempt").values_list("attempt", flat=True).first()
    if attempt is None:
        return []
    with time_limit(SECONDS):
        return _cut(rows.filter(wanted.query(), attempt=attempt).order_by("greedy", "group", "index"), MOST)


def rollouts_found(subject: Subject, wanted: Filter) -> list[dict[str, Any]]:
    """The newest rollouts of any step that pass the filter, at most ``FOUND``. Raises :class:`TooSlow`."""
    with time_limit(SECONDS):
        return _cut(_rows(subject).filter(wanted.query()).order_by("-step", "group", "index"), FOUND)


def rollout_whole(subject: Subject, id: int) -> Rollout | None:
    """One rollout with its whole texts."""
    return _rows(subject).filter(pk=id).first()


def steps_of_prompt(subject: Subject, prompt_key: str) -> list[dict[str, Any]]:
    """Where the same prompt was sampled: ``[{"step", "phase", "attempt"}]`` by steps, of the newest attempt."""
    rows = _rows(subject).filter(prompt_key=prompt_key).order_by("step", "phase", "-attempt").distinct("step", "phase")
    return [dict(row) for row in rows.values("step", "phase", "attempt")]


def samples_of_prompt(subject: Subject, prompt_key: str, step: int, phase: str) -> list[Rollout]:
    """The samples of a prompt at one step, of the newest attempt, as they were sampled."""
    rows = list(
        _rows(subject)
        .filter(prompt_key=prompt_key, step=step, phase=phase)
        .order_by("-attempt", "greedy", "index")[:256]
    )
    return [row for row in rows if row.attempt == rows[0].attempt]


def _rows(subject: Subject) -> QuerySet[Rollout]:
    return Rollout.objects.filter(subject_kind=subject[0], subject_id=subject[1])


def _cut(rows: QuerySet[Rollout], most: int) -> list[dict[str, Any]]:
    fields = (
        "id", "step", "phase", "group", "index", "prompt_key", "answer", "reward", "parts", "accurate", "tokens",
        "truncated", "greedy", "attempt",
    )  # fmt: skip
    found = rows.values(
        *fields,
        first_prompt=Left("prompt", CUT),
        first_completion=Left("completion", CUT),
        prompt_length=Length("prompt"),
        completion_length=Length("completion"),
    )
    return [{**row, "prompt": row["first_prompt"], "completion": row["first_completion"]} for row in found[:most]]
