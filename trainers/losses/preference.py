"""Losses that learn from which of two answers is better.

Each sequence is an answer. ``pair`` (N) numbers its pair and ``preferred`` (N) is 1 for the better and -1 for the worse
of the two; both are read at its first token, as ``token_weights`` is. Both answers of a pair must be in one call of the
loss, so the caller sees to it that a pair is not split between passes. r = Σ (p - reference) over the tokens of an
answer whose ``mask`` is not 0.
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
    returns, sign, weights = _returns(inputs), _at_first(inputs, "preferred"), _weights(inputs)
    baseline = _at_first(inputs, "baseline")
    share = torch.where(sign > 0, config["desirable_weight"], config["undesirable_weight"])
    terms = share * (1 - torch.sigmoid(config["beta"] * sign * (returns - baseline)))
    better, worse, _ = _pairs(inputs)
    return LossOutput((terms * weights).sum(), _pair_sums(better, worse, config["beta"]))


def _pairs(inputs: LossInputs) -> tuple[Tensor, Tensor, Tensor]:
    """r of the better and of the worse answer of each pair, and the pair's weight (the better answer's)."""
    returns, sign = _returns(inputs), _at_first(inputs, "preferred")
    numbers, pair = torch.unique(_at_first(inputs, "pair"), return_inverse=True)
    better, worse = sign > 0, sign < 0
    for answers in (better, worse):
        if not torch.equal(torch.bincount(pair[answers], minlength=len(numbers)), torch.ones_like(numbers).long()):
            raise ValueError("both answers of a pair, one better and one worse, must be in one call of the loss")
    empty = returns.new_zeros(len(numbers))
    return (
        empty.index_add(0, pair[better], returns[better]),
        empty.index_add(0, pair[worse], returns[worse]),
        empty.index_add(0, pair[better], _weights(inputs)[better]),
    )


def _returns(inputs: LossInputs) -> Tensor:
    gained = inputs.logprobs - inputs.arrays["reference_logprobs"]
    mask = inputs.arrays.get("mask")
    return inputs.per_sequence(gained if mask is None else gained * mask)


def _at_first(inputs: LossInputs, name: str) -> Tensor:
    return inputs.arrays[name][torch.as_tensor(inputs.bounds[:-1], device=inputs.logprobs.device)]


def _weights(inputs: LossInputs) -> Tensor:
    if "token_weights" in inputs.arrays:
        return _at_first(inputs, "token_weights")
    return inputs.logprobs.new_ones(len(inputs.bounds) - 1)


def _pair_sums(better: Tensor, worse: Tensor, beta: float) -> dict[str, Tensor]:
    """``preferred``: pairs in which the better answer gained more than the worse; rewards are β·r."""
    with torch.no_grad():
        return {
            "pairs": torch.as_tensor(len(better)),
            "preferred": (better > worse).sum(),
            "reward_chosen": beta * better.sum(),
            "reward_rejected": beta * worse.sum(),
        }
