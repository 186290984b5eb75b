"""Maximum likelihood: imitate the given tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trainers.losses.interface import LossInputs, LossOutput


def cross_entropy(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ p·w with p the log-probability of the target and w its weight (1 where none is given; may be negative).

    Source: Tinker protocol, loss ``cross_entropy``.
    """
    weights = inputs.arrays.get("weights")
    logprobs = inputs.logprobs
    total = -(logprobs.sum() if weights is None else (logprobs * weights).sum())
    with torch.no_grad():
        count = torch.as_tensor(logprobs.numel()) if weights is None else (weights != 0).sum()
    return LossOutput(total, {"weighted_tokens": count})
