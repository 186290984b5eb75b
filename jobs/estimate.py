"""What a task will do, take and cost, told before it starts: learned from the platform's own finished jobs,
or reckoned from the size of the work for as long as there are none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from billing.models import Price
from billing.selectors import current_price
from catalog.models import BaseModel
from compute.models import DeviceKind, Tier
from jobs.models import Job
from jobs.placement import device_need
from jobs.states import State
from trainers.spec import RECIPES, SpecError, TaskSpec, parse_spec

# A held-out completion is sampled but not trained on; sampling took 4.7 of the 21 s of a step when both were measured.
SAMPLED_ONLY = 0.22
LEARN_FROM = 20
# How far beyond the fastest and slowest comparable job the range reaches; answers differ in length from task to task.
MARGIN = {1: 0.5, 2: 0.35}
LEAST_MARGIN = 0.2
# Floating point operations a second that one device gives this work, to reckon with where no job has been seen: a CPU
# core from the steps of SmolLM2 that docs/benchmarks.md tells of, a GPU as a third of what common cards promise.
SPEED = {DeviceKind.CPU: 2.5e10, DeviceKind.GPU: 5e13}
# Sampling takes 2, training 6 operations per weight and token (Kaplan et al. 2020, arXiv:2001.08361, section 2.1).
PER_TOKEN = 8.0
TOKENS_OF_A_ROW = 128
# So far off a reckoning without any experience may be, either way.
WIDE = 3.0


@dataclass(frozen=True)
class Work:
    """The amount of work a spec describes. ``units`` compares jobs of a recipe: completion tokens at most, or rows."""

    steps: int
    rows_per_step: int
    completions_per_step: int
    tokens_per_completion: int
    evaluations: int
    held_out: int
    units: float

    @property
    def completions(self) -> int:
        return self.steps * self.completions_per_step

    @property
    def most_tokens(self) -> int:
        """Tokens that training samples if every completion is as long as it may be."""
        return self.completions * self.tokens_per_completion


@dataclass(frozen=True)
class Estimate:
    """``largest`` is how many such devices the largest living node has; ``seconds`` a range, None when unknown."""

    work: Work
    device: DeviceKind
    devices: int
    tier: Tier
    price: Price | None
    largest: int
    learned_from: int
    seconds: tuple[float, float] | None

    @property
    def per_step(self) -> tuple[float, float] | None:
        """Seconds of a step, its share of everything else included."""
        if self.seconds is None or not self.work.steps:
            return None
        return self.seconds[0] / self.work.steps, self.seconds[1] / self.work.steps

    @property
    def per_hour(self) -> Decimal | None:
        """Cost of all devices for an hour."""
        return None if self.price is None else self.price.per_device_hour * self.devices

    @property
    def cost(self) -> tuple[Decimal, Decimal] | None:
        if self.seconds is None or self.per_hour is None:
            return None
        low, high = (self.per_hour * Decimal(f"{second:.3f}") / 3600 for second in self.seconds)
        return low, high

    @property
    def device_text(self) -> str:
        label = self.device.label
        return f"1 {label}" if self.devices == 1 else f"{self.devices} {label}s"

    @property
    def currency(self) -> str:
        return self.price.currency if self.price else ""


def work_of(task: TaskSpec, rows: int) -> Work:
    """How much a spec asks for on a dataset of ``rows`` usable rows."""
    hyper, sampling, evaluation = task.hyperparameters, task.sampling, task.evaluation
    held_out = min(evaluation.prompts, rows)
    training_rows = rows if evaluation.source else max(rows - held_out, 0)
    if task.data.limit is not None:
        training_rows = min(training_rows, task.data.limit)
    recipe, trains = RECIPES[task.recipe], task.recipe != "evaluate"
    steps = (hyper.steps or max(1, math.ceil(training_rows / hyper.batch_size))) if trains else 0
    evaluations = 0
    if held_out:
        evaluations = (
            1 if not trains else 2 + (max(0, (steps - 1) // evaluation.every_steps) if evaluation.every_steps else 0)
        )
    group = sampling.group_size if recipe.samples else 2 if task.recipe == "dpo" else 1
    per_step = hyper.batch_size * group
    if recipe.samples:
        samples = evaluation.samples_per_prompt + int(evaluation.greedy)
        checked = SAMPLED_ONLY * evaluations * held_out * samples
        units = (steps * per_step + checked) * sampling.max_new_tokens
    else:
        units = steps * per_step + SAMPLED_ONLY * evaluations * held_out
    return Work(
        steps=steps,
        rows_per_step=hyper.batch_size,
        completions_per_step=per_step,
        tokens_per_completion=sampling.max_new_tokens,
        evaluations=evaluations,
        held_out=held_out,
        units=float(units),
    )


def estimate_job(*, task: TaskSpec, base: BaseModel, rows: int) -> Estimate:
    """What the task would do on this cluster now. ``rows`` is the number of usable rows of its dataset."""
    need = device_need(task, base)
    work = work_of(task, rows)
    rates = _rates(task, base, need.kind, need.devices)
    return Estimate(
        work=work,
        device=need.kind,
        devices=need.devices,
        tier=Tier(task.resources.tier),
        price=current_price(need.kind, task.resources.tier),
        largest=need.largest,
        learned_from=len(rates),
        seconds=_range(rates, work.units) or _reckoned(task, base, work, need.kind, need.devices),
    )


def _range(rates: list[float], units: float) -> tuple[float, float] | None:
    if not rates:
        return None
    margin = MARGIN.get(len(rates), LEAST_MARGIN)
    return min(rates) * units * (1 - margin), max(rates) * units * (1 + margin)


def _reckoned(
    task: TaskSpec, base: BaseModel, work: Work, device: DeviceKind, devices: int
) -> tuple[float, float] | None:
    """From the number of operations alone, for as long as there is no experience."""
    if not base.parameters or not work.units:
        return None
    tokens = work.units if RECIPES[task.recipe].samples else work.units * TOKENS_OF_A_ROW
    seconds = tokens * base.parameters * PER_TOKEN / (SPEED[device] * devices)
    return seconds / WIDE, seconds * WIDE


def _rates(task: TaskSpec, base: BaseModel, device: str, devices: int) -> list[float]:
    """Seconds per unit of work in the latest finished jobs with this model and recipe on the same devices."""
    jobs = (
        Job.objects.filter(
            state=State.SUCCEEDED,
            base_model=base,
            spec__recipe=task.recipe,
            epoch=1,
            started_at__isnull=False,
            ended_at__isnull=False,
            attempts__grant__request__device_kind=device,
            attempts__grant__request__devices=devices,
        )
        .select_related("dataset_version")
        .order_by("-ended_at")[:LEARN_FROM]
    )
    rates = []
    for job in jobs:
        try:
            work = work_of(parse_spec(job.spec), job.dataset_version.usable_rows)
        except SpecError:
            continue  # stored under an older version of the spec
        assert job.started_at is not None and job.ended_at is not None
        seconds = (job.ended_at - job.started_at).total_seconds()
        if seconds > 0 and work.units > 0:
            rates.append(seconds / work.units)
    return rates
