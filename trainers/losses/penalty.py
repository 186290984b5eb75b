"""A loss with a penalty for leaving the reference model added to it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.losses.interface import Loss, LossInputs, LossOutput


def kl_estimate(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Per token, an unbiased and never negative estimate of KL(policy ‖ reference): exp(d) - d - 1, d = log ref - p.

    Estimator k3 of J. Schulman, "Approximating KL divergence" (2020); as in GRPO (arXiv:2402.03300, eq. 4).
    """
    difference = reference - logprobs
    return difference.exp() - difference - 1


def with_kl(loss: Loss, coefficient: float) -> Loss:
    """The loss plus ``coefficient`` · Σ KL estimate; reads ``reference_logprobs`` (N) besides the loss's own arrays.

    The penalty is per token and weighed by ``token_weights`` like the loss; tokens whose ``mask`` is 0 have none.
    """

    def function(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
        output = loss.function(inputs, config)
        kl = kl_estimate(inputs.logprobs, inputs.arrays["reference_logprobs"])
        tokens = torch.as_tensor(kl.numel())
        if (mask := inputs.arrays.get("mask")) is not None:
            kl, tokens = kl * mask, mask.sum()
        sums = {**output.sums, "kl": kl.detach().sum(), "kl_tokens": tokens}
        return LossOutput(output.total + coefficient * inputs.sum(kl), sums)

    return Loss(f"{loss.name} with KL penalty", function, (*loss.arrays, "reference_logprobs"), loss.defaults)
