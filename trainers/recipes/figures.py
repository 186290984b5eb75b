"""The metrics of a step that samples and trains, by the journal's keys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainers.engine.batch import StepOutput
from trainers.recipes.rollouts import Rollout, Rollouts


def outcome_figures(rollouts: Rollouts, part: str) -> dict[str, float]:
    """What a batch of rollouts came to, by keys that begin with ``part`` (``train`` or ``eval``)."""
    flat = rollouts.flat
    return {
        f"{part}/accuracy": mean([rollout.score.accurate for rollout in flat]),
        f"{part}/reward": mean([rollout.score.reward for rollout in flat]),
        f"{part}/pass_at_k": mean([any(rollout.score.accurate for rollout in group) for group in rollouts.groups]),
        f"{part}/completion_tokens": mean([rollout.length for rollout in flat]),
        f"{part}/truncated": mean([not rollout.completion.stopped for rollout in flat]),
    }


def rollout_figures(rollouts: Rollouts) -> dict[str, float]:
    """Rewards, accuracy, lengths and entropy of a batch of rollouts."""
    flat = rollouts.flat
    values = outcome_figures(rollouts, "train") | {
        "train/reward_std": _deviation([rollout.score.reward for rollout in flat]),
        "train/completion_tokens_max": float(max(rollout.length for rollout in flat)),
        "train/prompt_tokens": mean([len(group[0].prompt.tokens) for group in rollouts.groups]),
        "train/entropy": _entropy(flat) / max(1, rollouts.tokens),
    }
    for name in flat[0].score.parts:
        parts = [rollout.score.parts.get(name, 0.0) for rollout in flat]
        values[f"reward/{name}"] = mean(parts)
        values[f"reward_std/{name}"] = _deviation(parts)
    return values


def update_figures(outputs: Sequence[StepOutput], grad_norm: float) -> dict[str, float]:
    """Loss and ratios of the optimizer steps on one batch."""
    values = {
        "train/grad_norm": grad_norm,
        "train/loss": sum(output.loss for output in outputs) / max(1, len(outputs)),
    }
    tokens = sum(output.sums.get("policy_tokens", 0.0) for output in outputs)
    if tokens:
        values["train/ratio"] = sum(output.sums["ratio"] for output in outputs) / tokens
        values["train/clip_fraction"] = sum(output.sums["clipped"] for output in outputs) / tokens
        first = outputs[0].sums
        values["train/logprob_mismatch"] = first["mismatch"] / max(1.0, first["policy_tokens"])
    return values


def time_figures(step_s: float, train_s: float, trained_tokens: int, rollouts: Rollouts) -> dict[str, float]:
    """Seconds and tokens per second of a step."""
    return {
        "system/step_s": step_s,
        "system/sample_s": rollouts.sample_s,
        "system/reward_s": rollouts.reward_s,
        "system/train_s": train_s,
        "system/sample_tokens_per_s": rollouts.tokens / max(rollouts.sample_s, 1e-9),
        "system/train_tokens_per_s": trained_tokens / max(train_s, 1e-9),
    }


def _entropy(rollouts: Sequence[Rollout]) -> float:
    return sum(
        weight * entropy
        for rollout in rollouts
        for weight, entropy in zip(rollout.weights, rollout.completion.entropies, strict=True)
    )


def mean(values: Sequence[float]) -> float:
    """NaN for nothing."""
    return sum(values) / len(values) if values else float("nan")


def _deviation(values: Sequence[float]) -> float:
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / len(values)) if values else float("nan")
