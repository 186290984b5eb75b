"""Advantages of a group of completions of one prompt: how much better than the group each one is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

_EQUAL = 1e-8  # a deviation below this is rounding: the group says nothing about what is better


def group_advantages(rewards: Sequence[float], kind: Literal["mean", "mean_std"]) -> list[float]:
    """Reward minus the group's mean; ``mean_std`` also divides by the group's standard deviation.

    All zeros for a group of equal rewards. Source: GRPO, arXiv:2402.03300, §4.1.2; without the division it is the
    estimator of Dr. GRPO, arXiv:2503.20783.
    """
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if deviation < _EQUAL:
        return [0.0] * len(rewards)
    return [(reward - mean) / (deviation if kind == "mean_std" else 1.0) for reward in rewards]
