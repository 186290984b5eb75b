"""Where to start, by the size of the model: learning rate, batch and group. docs/recipes.md shows the table.

Sources: Schulman et al., "LoRA Without Regret" (Thinking Machines, 2025): the best rate with LoRA is about ten times
that of full fine-tuning, hardly depends on the rank, and falls with the model's width; Hu et al., arXiv:2106.09685;
DeepSeekMath, arXiv:2402.03300 (GRPO, full, 7B: 1e-6); Rafailov et al., arXiv:2305.18290 (DPO: 1e-6 and below); DAPO,
arXiv:2503.14476 (1e-6, 16 completions). The smallest row is measured here on SmolLM2-135M (docs/benchmarks.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainers.spec import TaskSpec

Family = Literal["imitate", "reinforce", "prefer"]

_FAMILY: dict[str, Family] = {
    "sft": "imitate",
    "best_of_n": "imitate",
    "grpo": "reinforce",
    "ppo_critic": "reinforce",
    "distill": "reinforce",
    "dpo": "prefer",
}
FULL_TO_LORA = 10.0
HIGH, LOW = 4.0, 0.02  # times the suggestion: beyond these a rate deserves a warning


@dataclass(frozen=True)
class Size:
    """Suggestions for models of up to so many parameters; learning rates are those for LoRA."""

    up_to: float
    label: str
    imitate: float
    reinforce: float
    prefer: float
    batch_size: int
    group_size: int


SIZES = (
    Size(0.3e9, "up to 0.3 B", 5e-4, 5e-4, 5e-5, 8, 8),
    Size(1.5e9, "up to 1.5 B", 3e-4, 2e-4, 2e-5, 16, 8),
    Size(9e9, "up to 9 B", 2e-4, 1e-4, 1e-5, 32, 8),
    Size(40e9, "up to 40 B", 1e-4, 5e-5, 5e-6, 64, 16),
    Size(float("inf"), "above", 5e-5, 3e-5, 3e-6, 64, 16),
)


def size_of(parameters: int) -> Size:
    """The row of the table for a model."""
    return next(size for size in SIZES if parameters <= size.up_to)


def suggested_rate(task: TaskSpec, parameters: int) -> float | None:
    """A learning rate to start with; None for a recipe that does not train."""
    family = _FAMILY.get(task.recipe)
    if family is None:
        return None
    rate: float = getattr(size_of(parameters), family)
    return rate if task.model.adapter.kind == "lora" else rate / FULL_TO_LORA


def rate_warning(task: TaskSpec, parameters: int) -> str | None:
    """A sentence if the learning rate is far from where such models learn."""
    suggested = suggested_rate(task, parameters)
    if suggested is None:
        return None
    rate, size = task.hyperparameters.learning_rate, size_of(parameters).label
    with_what = "LoRA" if task.model.adapter.kind == "lora" else "all weights"
    if rate > HIGH * suggested:
        return (
            f"A learning rate of {rate:g} is high for {task.recipe} with {with_what} for {size} parameters "
            f"and may break the model; {suggested:g} is a common start."
        )
    if rate < LOW * suggested:
        return (
            f"A learning rate of {rate:g} is so low for {task.recipe} with {with_what} that little may change; "
            f"{suggested:g} is a common start."
        )
    return None
