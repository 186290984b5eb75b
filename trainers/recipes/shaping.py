"""What is added to a reward before advantages are made of it."""

from __future__ import annotations

from collections.abc import Sequence

from trainers.recipes.rollouts import Rollout
from trainers.spec import Sampling


def overlong_penalty(length: int, limit: int, buffer: int, penalty: float) -> float:
    """0 up to ``limit - buffer`` tokens, then falling in a line to ``-penalty`` at the limit.

    Soft overlong punishment of DAPO (arXiv:2503.14476, eq. 13), with the penalty's size free.
    """
    if buffer == 0 or length <= limit - buffer:
        return 0.0
    return -penalty * min(1.0, (length - (limit - buffer)) / buffer)


def shaped_rewards(rollouts: Sequence[Rollout], sampling: Sampling) -> list[float]:
    """Rewards with the overlong penalty taken off."""
    return [
        rollout.score.reward
        + overlong_penalty(rollout.length, sampling.max_new_tokens, sampling.overlong_tokens, sampling.overlong_penalty)
        for rollout in rollouts
    ]


def summed_log_ratio(policy: Sequence[float], reference: Sequence[float], weights: Sequence[float]) -> float:
    """Σ (log policy - log reference) over a completion's own tokens: the estimate k1 of its KL divergence.

    Taken off the reward as in RLHF (Ziegler et al. 2019, arXiv:1909.08593, eq. 2).
    """
    return sum(w * (p - r) for p, r, w in zip(policy, reference, weights, strict=True))
