"""Advantages: how much better a completion, or a token, did than was to be expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

AdvantageKind = Literal["mean", "mean_std", "leave_one_out"]

_EQUAL = 1e-8  # a deviation below this is rounding: the group says nothing about what is better


def group_advantages(rewards: Sequence[float], kind: AdvantageKind) -> list[float]:
    """Reward minus a baseline made of the group's rewards; all zeros for a group of equal rewards.

    ``mean``: A_i = r_i - mean(r) (Dr. GRPO, arXiv:2503.20783). ``mean_std``: that, divided by the group's standard
    deviation (GRPO, arXiv:2402.03300, §4.1.2). ``leave_one_out``: A_i = r_i - mean of the other rewards =
    G / (G - 1) · (r_i - mean(r)) (RLOO, arXiv:2402.14740, eq. 8).
    """
    count = len(rewards)
    mean = sum(rewards) / count
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / count)
    if deviation < _EQUAL:
        return [0.0] * count
    if kind == "leave_one_out":
        return [(reward - mean) * count / (count - 1) for reward in rewards]
    return [(reward - mean) / (deviation if kind == "mean_std" else 1.0) for reward in rewards]


def generalized_advantages(
    rewards: Sequence[float], values: Sequence[float], *, discount: float, gae_lambda: float
) -> tuple[list[float], list[float]]:
    """Advantages and returns of each token of an episode that ends after the last (GAE, arXiv:1506.02438, eq. 16).

    δ_t = r_t + γ·V_{t+1} - V_t with V = 0 after the end; A_t = δ_t + γ·λ·A_{t+1}; the return is A_t + V_t.
    """
    advantages = [0.0] * len(rewards)
    following, next_value = 0.0, 0.0
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + discount * next_value - values[t]
        following = delta + discount * gae_lambda * following
        advantages[t], next_value = following, values[t]
    return advantages, [advantage + value for advantage, value in zip(advantages, values, strict=True)]
