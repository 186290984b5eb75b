"""What can be told before a job is paid for: whether it fits in memory, what is too long, what its reward gives."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from catalog.models import BaseModel, DatasetVersion
from catalog.previews import PreviewRow, preview_rows
from catalog.trying import Case, Outcome, try_out
from compute.models import DeviceKind, Node
from jobs.estimate import Estimate
from trainers.memory import Memory, Shape, memory_of
from trainers.spec import TaskSpec
from workspaces import formats
from workspaces.models import Workspace

SAMPLES = 5
CHARACTERS_PER_TOKEN = 4.0
TIGHT = 0.85


@dataclass(frozen=True)
class Fit:
    """``available`` is what the device has, None when the platform does not know."""

    memory: Memory
    available: int | None

    @property
    def fits(self) -> bool | None:
        return None if self.available is None else self.memory.total <= self.available

    @property
    def sentence(self) -> str:
        need = formats.size(self.memory.total)
        if self.available is None:
            return f"Needs about {need} of memory on its device."
        have = formats.size(self.available)
        if not self.fits:
            return f"Needs about {need} of memory, and the device has {have}: lower the batch, group or lengths."
        tight = self.memory.total > TIGHT * self.available
        return f"Needs about {need} of the device's {have} of memory{'; that is tight' if tight else ''}."


def memory_fit(task: TaskSpec, base: BaseModel, dataset: DatasetVersion, estimate: Estimate) -> Fit | None:
    """None for a model whose shape is not known here."""
    shape = _shape(base)
    if shape is None:
        return None
    report = dataset.report
    prompt, answer = (tokens_at_p95(report, part) for part in ("prompt", "answer"))
    memory = memory_of(task, shape, prompt_tokens=prompt, answer_tokens=answer)
    return Fit(memory, _memory_of_device(estimate.device))


def too_long(task: TaskSpec, report: dict[str, Any]) -> str | None:
    """How many prompts are left out for their length, as a sentence; None when none is."""
    lengths = (report.get("lengths") or {}).get("prompt")
    if not lengths:
        return None
    limit = task.hyperparameters.max_prompt_tokens
    share = _share_above(lengths, limit * _per_token(report))
    if share < 0.0005:
        return None
    model = (report.get("tokens") or {}).get("model")
    by = f"by the tokenizer of {model}" if model else "by a rough count"
    said = f"{share:.0%}" if share >= 0.01 else "Less than 1%"
    return f"{said} of the prompts have more than {limit:,} tokens ({by}) and are left out."


def tokens_at_p95(report: dict[str, Any], part: str) -> int:
    """About how many tokens all but the longest twentieth of the texts take."""
    characters = ((report.get("lengths") or {}).get(part) or {}).get("p95") or 0
    return math.ceil(characters / _per_token(report))


def dry_run(task: TaskSpec, dataset: DatasetVersion, workspace: Workspace) -> Outcome | None:
    """The reward of five rows' reference answers, of another row's answer and of nothing; None without a reward."""
    if task.reward is None:
        return None
    rows = preview_rows(dataset)[:SAMPLES]
    return try_out(task.reward, _cases(rows), workspace)


def _cases(rows: list[PreviewRow]) -> list[Case]:
    cases = []
    for index, row in enumerate(rows):
        if row.answer is not None:
            cases.append(Case("right", "the reference answer", row.prompt, row.answer, row.answer, row.raw))
            others = [other.answer for other in (*rows[index + 1 :], *rows[:index])]
            other = next((answer for answer in others if answer is not None and answer != row.answer), None)
            if other is not None:
                cases.append(Case("wrong", "another row's answer", row.prompt, other, row.answer, row.raw))
        cases.append(Case("wrong", "an empty completion", row.prompt, "", row.answer, row.raw))
    return cases


def _per_token(report: dict[str, Any]) -> float:
    return float((report.get("tokens") or {}).get("per_token") or CHARACTERS_PER_TOKEN)


def _share_above(lengths: dict[str, Any], limit: float) -> float:
    """The share of a histogram above a limit, evenly spread inside the bar that holds it."""
    if lengths.get("largest", 0) <= limit:
        return 0.0
    total = above = 0.0
    for bar in lengths.get("bars") or []:
        low, high, count = bar["low"], bar["high"], bar["count"]
        total += count
        above += count * min(1.0, max(0.0, (high - limit) / max(high - low, 1)))
    return above / total if total else 0.0


def _shape(base: BaseModel) -> Shape | None:
    cached = sorted(Path(settings.MODEL_CACHE).glob(f"{base.name}-*/config.json")) if "/" not in base.name else []
    source = Path(base.source)
    for path in (*cached, *([source / "config.json"] if source.is_absolute() else [])):
        try:
            return Shape.of_config(json.loads(path.read_text(encoding="utf-8")), base.parameters)
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue
    return None


def _memory_of_device(kind: DeviceKind) -> int | None:
    """The memory of this machine where it is the only one that trains; nodes elsewhere do not tell theirs."""
    if kind != DeviceKind.CPU or Node.objects.filter(alive=True).values("address").distinct().count() != 1:
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
