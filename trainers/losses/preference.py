"""Losses that learn from which of two answers is better.

Sequences come in pairs, the better one first: sequences 2i and 2i + 1 answer the same prompt. Both must be in one call
of the loss, so the caller sees to it that a pair is not split between passes. With r = Σ (p - reference) over the
tokens of an answer; ``token_weights`` at a sequence's first token is its weight (or its pair's, at the better one).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainers.losses.interface import LossInputs, LossOutput


def dpo(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """-Σ [(1 - ε)·log σ(β·m) + ε·log σ(-β·m)] with m = r_better - r_worse, ε = ``label_smoothing``.

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; with ε the conservative form of E. Mitchell, "A note on DPO
    with noisy preferences" (2023).
    """
    better, worse, weights = _pairs(inputs)
    beta, smoothing = config["beta"], config["label_smoothing"]
    margin = beta * (better - worse)
    terms = -(1 - smoothing) * logsigmoid(margin) - smoothing * logsigmoid(-margin)
    return LossOutput((terms * weights).sum(), _pair_sums(better, worse, beta))


def ipo(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """Σ (m - 1 / (2β))²: the margin is led to a value, not to infinity (Azar et al. 2023, arXiv:2310.12036, eq. 17).

    The β here is the paper's τ. r is a sum over tokens, as in the paper.
    """
    better, worse, weights = _pairs(inputs)
    terms = (better - worse - 1 / (2 * config["beta"])).square()
    return LossOutput((terms * weights).sum(), _pair_sums(better, worse, config["beta"]))


def kto(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
    """Σ λ·(1 - σ(±β·(r - z))): each answer by itself is worth more or less than a baseline z, + for the better one.

    Source: Ethayarajh et al. 2024, arXiv:2402.01306, eq. 7-8. ``baseline`` holds z per token: an estimate of the KL
    divergence from the reference, which the caller makes and which has no gradient.
    """
    returns, first = _returns(inputs), _first(inputs)
    baseline = inputs.arrays["baseline"][first]
    sign = torch.ones_like(returns)
    sign[1::2] = -1.0
    share = torch.where(sign > 0, config["desirable_weight"], config["undesirable_weight"])
    terms = share * (1 - torch.sigmoid(config["beta"] * sign * (returns - baseline)))
    total = (terms * _weights(inputs, first)).sum()
    return LossOutput(total, _pair_sums(returns[0::2], returns[1::2], config["beta"]))


def _pairs(inputs: LossInputs) -> tuple[Tensor, Tensor, Tensor]:
    returns = _returns(inputs)
    return returns[0::2], returns[1::2], _weights(inputs, _first(inputs))[0::2]


def _returns(inputs: LossInputs) -> Tensor:
    if len(inputs.bounds) % 2 == 0:
        raise ValueError("preference losses take sequences in pairs, the better answer first")
    return inputs.per_sequence(inputs.logprobs - inputs.arrays["reference_logprobs"])


def _first(inputs: LossInputs) -> Tensor:
    return torch.as_tensor(inputs.bounds[:-1], device=inputs.logprobs.device)


def _weights(inputs: LossInputs, first: Tensor) -> Tensor:
    weights = inputs.arrays.get("token_weights")
    return torch.ones_like(first, dtype=inputs.logprobs.dtype) if weights is None else weights[first]


def _pair_sums(better: Tensor, worse: Tensor, beta: float) -> dict[str, Tensor]:
    """``preferred``: pairs in which the better answer gained more than the worse; rewards are β·r."""
    with torch.no_grad():
        return {
            "pairs": torch.as_tensor(len(better)),
            "preferred": (better > worse).sum(),
            "reward_chosen": beta * better.sum(),
            "reward_rejected": beta * worse.sum(),
        }
