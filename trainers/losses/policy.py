"""Policy-gradient losses. With p = log-probability now, q = that of the sampling policy, A = advantage, r = exp(p - q).

Formulas are those of the Tinker protocol for the same names; the papers are named with each.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.losses.interface import LossInputs, LossOutput, ratio_sums


def importance_sampling(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ r·A: the policy gradient, corrected for the policy that sampled (Kahn & Marshall 1953)."""
    log_ratio, advantages = inputs.log_ratio(), inputs.arrays["advantages"]
    ratio = log_ratio.exp()
    return LossOutput(-inputs.sum(ratio * advantages), ratio_sums(log_ratio, ratio, advantages, 0.0, float("inf")))


def ppo(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ min(r·A, clamp(r, low, high)·A) (Schulman et al. 2017, arXiv:1707.06347, eq. 7).

    ``clip_low_threshold`` and ``clip_high_threshold`` bound the ratio itself (0.8 and 1.2, not 0.2).
    """
    log_ratio = inputs.log_ratio()
    return _clipped(inputs, log_ratio, log_ratio.exp(), config)


def cispo(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ detach(clamp(r, low, high))·p·A: every token keeps its gradient (MiniMax 2025, arXiv:2506.13585, eq. 4)."""
    low, high = config["clip_low_threshold"], config["clip_high_threshold"]
    log_ratio, advantages = inputs.log_ratio(), inputs.arrays["advantages"]
    ratio = log_ratio.detach().exp()
    total = -inputs.sum(ratio.clamp(low, high) * inputs.logprobs * advantages)
    return LossOutput(total, ratio_sums(log_ratio, ratio, advantages, low, high))


def dro(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ (p·A - ½·beta·(p - q)²): a policy gradient held near the sampling policy by a square.

    Source: Tinker protocol, loss ``dro``; after Richemond et al. 2024, arXiv:2405.19107.
    """
    log_ratio, advantages = inputs.log_ratio(), inputs.arrays["advantages"]
    total = -inputs.sum(inputs.logprobs * advantages - 0.5 * config["beta"] * log_ratio.square())
    return LossOutput(total, ratio_sums(log_ratio, log_ratio.detach().exp(), advantages, 0.0, float("inf")))


def gspo(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """ppo with one ratio per sequence, s = exp(mean of p - q) (Zheng et al. 2025, arXiv:2507.18071, eq. 5-7, 14).

    The mean runs over the tokens where ``sequence_ratio_mask`` is not 0 (without it: where the advantage is not 0).
    Each token has the value s and the gradient of its own p (GSPO-token), as the protocol says.
    """
    log_ratio, advantages = inputs.log_ratio(), inputs.arrays["advantages"]
    mask = inputs.arrays.get("sequence_ratio_mask")
    mask = (advantages if mask is None else mask) != 0
    held = mask.to(log_ratio.dtype)
    counts = inputs.per_sequence(held).clamp(min=1)
    mean = (inputs.per_sequence(log_ratio.detach() * held) / counts)[inputs.sequences()]
    ratio = (mean + inputs.logprobs - inputs.logprobs.detach()).exp()
    return _clipped(inputs, log_ratio, ratio, config)


def _clipped(inputs: LossInputs, log_ratio: Tensor, ratio: Tensor, config: Mapping[str, float]) -> LossOutput:
    low, high, advantages = config["clip_low_threshold"], config["clip_high_threshold"], inputs.arrays["advantages"]
    total = -inputs.sum(torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages))
    return LossOutput(total, ratio_sums(log_ratio, ratio, advantages, low, high))
