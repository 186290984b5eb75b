"""Rollouts of one step as a page shows them: the samples of a prompt side by side, with what makes up their reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jobs.models import Job
from records.rollout_pages import CUT, FOUND, Filter, rollouts_found, rollouts_of_step
from records.selectors import rollout_steps
from records.time_limit import TooSlow

PHASES = {
    "train": "training",
    "before": "before training",
    "eval": "held-out",
    "after": "after training",
}
# At the same step: before training comes first, after it last, and training before its evaluation.
ORDER = {"before": 0, "train": 1, "eval": 2, "after": 3}
SORTS = {
    "reward": "best first",
    "worst": "worst first",
    "length": "longest first",
    "index": "as sampled",
}
ONLY = {
    "": "all",
    "right": "right only",
    "wrong": "wrong only",
    "cut": "cut only",
    "whole": "not cut",
}
_ONLY: dict[str, dict[str, bool]] = {
    "right": {"accurate": True},
    "wrong": {"accurate": False},
    "cut": {"truncated": True},
    "whole": {"truncated": False},
}
GROUPS_PER_PAGE = 10
LONGEST_TEXT = 200


@dataclass(frozen=True)
class Group:
    """The samples of one prompt, sorted."""

    number: int
    prompt: str
    answer: str | None
    samples: list[dict[str, Any]]

    @property
    def first(self) -> dict[str, Any]:
        return self.samples[0]

    @property
    def mean(self) -> float:
        return sum(float(sample["reward"]) for sample in self.samples) / len(self.samples)

    @property
    def best(self) -> dict[str, Any]:
        return max(self.samples, key=lambda sample: float(sample["reward"]))

    @property
    def worst(self) -> dict[str, Any]:
        return min(self.samples, key=lambda sample: float(sample["reward"]))


@dataclass(frozen=True)
class RolloutPage:
    """``steps`` are the choices; ``step`` and ``phase`` what is shown; ``newest`` whether that follows the job."""

    steps: list[dict[str, Any]]
    step: int | None
    phase: str
    phase_label: str
    newest: bool
    sort: str
    sorts: dict[str, str]
    groups: list[Group]
    group_count: int
    page: int
    pages: int
    previous: dict[str, Any] | None
    following: dict[str, Any] | None
    text: str
    least: str
    most: str
    only: str
    only_choices: dict[str, str]
    filtered: bool
    everywhere: bool
    problem: str
    sample_count: int
    largest_part: float

    @property
    def keep(self) -> str:
        """Sort and filters as they stand in an address, without step and page."""
        named = {
            "sort": self.sort, "q": self.text, "least": self.least, "most": self.most, "only": self.only,
            "in": "all" if self.everywhere else "",
        }  # fmt: skip
        return urlencode({key: value for key, value in named.items() if value})

    @property
    def cut(self) -> int:
        return CUT

    @property
    def limit(self) -> int:
        return FOUND


def rollout_page(job: Job, query: Mapping[str, str]) -> RolloutPage:
    """What ``query`` asks for: ``at`` (``"<step>/<phase>"``, else the newest step), ``sort``, ``page``, and filters.

    ``q`` is looked for in the texts, ``least`` and ``most`` bound the reward, ``only`` is a key of ``ONLY``; with
    ``in=all`` every step is searched.
    """
    steps = _steps(job)
    wanted = query.get("at", "")
    at = next((index for index, row in enumerate(steps) if row["at"] == wanted), None)
    newest = at is None
    at = len(steps) - 1 if at is None else at
    sort = query.get("sort", "")
    sort = sort if sort in SORTS else "reward"
    row = steps[at] if steps else None
    filters, problem = _filters(query)
    everywhere = query.get("in") == "all" and bool(filters)
    found: list[dict[str, Any]] = []
    try:
        if everywhere:
            found = rollouts_found(("job", job.pk), filters)
        elif row:
            found = rollouts_of_step(("job", job.pk), row["step"], row["phase"], filters)
    except TooSlow:
        problem = "The search took too long. Look in one step, or for a longer text."
    groups = _groups(found, sort)
    pages = max(1, -(-len(groups) // GROUPS_PER_PAGE))
    number = min(max(_count(query.get("page", "1")), 1), pages)
    return RolloutPage(
        steps=steps,
        step=row["step"] if row else None,
        phase=row["phase"] if row else "",
        phase_label=PHASES.get(row["phase"], row["phase"]) if row else "",
        newest=newest,
        sort=sort,
        sorts=SORTS,
        groups=groups[(number - 1) * GROUPS_PER_PAGE : number * GROUPS_PER_PAGE],
        group_count=len(groups),
        page=number,
        pages=pages,
        previous=steps[at - 1] if at > 0 else None,
        following=steps[at + 1] if 0 <= at < len(steps) - 1 else None,
        text=filters.text,
        least=query.get("least", "").strip()[:20],
        most=query.get("most", "").strip()[:20],
        only=query.get("only", "") if query.get("only", "") in ONLY else "",
        only_choices=ONLY,
        filtered=bool(filters),
        everywhere=everywhere,
        problem=problem,
        sample_count=len(found),
        largest_part=_largest_part(found),
    )


def _steps(job: Job) -> list[dict[str, Any]]:
    rows = sorted(rollout_steps(("job", job.pk)), key=lambda row: (row["step"], ORDER.get(row["phase"], 1)))
    return [step_choice(row) for row in rows]


def step_choice(row: dict[str, Any]) -> dict[str, Any]:
    """A step and phase with the value (``at``) and the label by which one chooses it."""
    label = f"step {row['step']} · {PHASES.get(row['phase'], row['phase'])}"
    return {**row, "at": f"{row['step']}/{row['phase']}", "label": label}


def _filters(query: Mapping[str, str]) -> tuple[Filter, str]:
    """The filters, and what is wrong with them; what cannot be read is left out."""
    bounds: dict[str, float] = {}
    problem = ""
    for name in ("least", "most"):
        text = query.get(name, "").strip()[:20]
        if not text:
            continue
        try:
            bounds[name] = float(text)
        except ValueError:
            problem = f"{text} is not a number, so the reward is not bounded by it."
            continue
        if math.isnan(bounds[name]):
            del bounds[name]
    # NUL cannot be in a stored text, and the database does not take it.
    text = query.get("q", "").replace("\x00", "").strip()[:LONGEST_TEXT]
    only = _ONLY.get(query.get("only", ""), {})
    found = Filter(text, bounds.get("least"), bounds.get("most"), only.get("accurate"), only.get("truncated"))
    return found, problem


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 1


def _largest_part(rollouts: list[dict[str, Any]]) -> float:
    values = [
        abs(value)
        for rollout in rollouts
        for value in rollout["parts"].values()
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    return max(values, default=0.0)


def _groups(rollouts: list[dict[str, Any]], sort: str) -> list[Group]:
    """In the order of the prompts; where several steps were searched, in the order of what was found."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for rollout in rollouts:
        found.setdefault((-rollout["step"], rollout["phase"], rollout["group"]), []).append(rollout)
    return [
        Group(key[2], samples[0]["prompt"], samples[0]["answer"], _sorted(samples, sort))
        for key, samples in sorted(found.items(), key=lambda item: item[0])
    ]


def _sorted(samples: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    by_place = sorted(samples, key=lambda sample: (sample["greedy"], sample["index"]))
    if sort == "index":
        return by_place
    if sort == "length":
        return sorted(by_place, key=lambda sample: -sample["tokens"])
    sign = 1 if sort == "worst" else -1
    # NaN has no place among numbers: it goes to the end.
    return sorted(by_place, key=lambda s: (s["reward"] != s["reward"], sign * s["reward"]))
