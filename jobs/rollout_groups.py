"""Rollouts of one step as a page shows them: the samples of a prompt side by side, with what makes up their reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.models import Job
from records.selectors import rollout_steps, rollouts_at

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
GROUPS_PER_PAGE = 10


@dataclass(frozen=True)
class Group:
    """The samples of one prompt, sorted."""

    number: int
    prompt: str
    answer: str | None
    samples: list[dict[str, Any]]

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


def rollout_page(job: Job, query: Mapping[str, str]) -> RolloutPage:
    """What ``query`` asks for: ``at`` (``"<step>/<phase>"``, else the newest step), ``sort`` and ``page``."""
    steps = [
        {
            **row,
            "at": f"{row['step']}/{row['phase']}",
            "label": f"step {row['step']} · {PHASES.get(row['phase'], row['phase'])}",
        }
        for row in sorted(rollout_steps(("job", job.pk)), key=lambda row: (row["step"], ORDER.get(row["phase"], 1)))
    ]
    wanted = query.get("at", "")
    at = next((index for index, row in enumerate(steps) if row["at"] == wanted), None)
    newest = at is None
    at = len(steps) - 1 if at is None else at
    sort = query.get("sort", "")
    sort = sort if sort in SORTS else "reward"
    row = steps[at] if steps else None
    groups = _groups(rollouts_at("job", job.pk, row["step"], row["phase"]), sort) if row else []
    pages = max(1, -(-len(groups) // GROUPS_PER_PAGE))
    page = query.get("page", "1")
    number = min(max(int(page) if page.isdecimal() and len(page) < 6 else 1, 1), pages)
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
    )


def _groups(rollouts: list[dict[str, Any]], sort: str) -> list[Group]:
    found: dict[int, list[dict[str, Any]]] = {}
    for rollout in rollouts:
        # A reward that is no number arrives as its name, which float understands.
        found.setdefault(rollout["group"], []).append({**rollout, "reward": float(rollout["reward"])})
    return [
        Group(number, samples[0]["prompt"], samples[0]["answer"], _sorted(samples, sort))
        for number, samples in sorted(found.items())
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
