"""Losses by the names of the Tinker protocol, losses that learn from pairs, and the interface of one's own."""

from __future__ import annotations

from trainers.losses.custom import check_custom_loss, custom_loss
from trainers.losses.interface import Loss, LossFunction, LossInputs, LossOutput
from trainers.losses.likelihood import cross_entropy
from trainers.losses.penalty import kl_estimate, with_kl
from trainers.losses.policy import cispo, dro, gspo, importance_sampling, ppo
from trainers.losses.preference import dpo, ipo, kto

__all__ = [
    "LOSSES",
    "PREFERENCE_LOSSES",
    "Loss",
    "LossFunction",
    "LossInputs",
    "LossOutput",
    "check_custom_loss",
    "custom_loss",
    "kl_estimate",
    "with_kl",
]

_POLICY = ("logprobs", "advantages")
_PAIRS = ("reference_logprobs", "pair", "preferred")
_BOUNDS = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("cross_entropy", cross_entropy, ()),
        Loss("importance_sampling", importance_sampling, _POLICY),
        Loss("ppo", ppo, _POLICY, _BOUNDS),
        Loss("cispo", cispo, _POLICY, _BOUNDS),
        Loss("dro", dro, _POLICY, {"beta": 0.05}),
        Loss("gspo", gspo, _POLICY, _BOUNDS),
    )
}

PREFERENCE_LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("dpo", dpo, _PAIRS, {"beta": 0.1, "label_smoothing": 0.0}),
        Loss("ipo", ipo, _PAIRS, {"beta": 0.1}),
        Loss("kto", kto, (*_PAIRS, "baseline"), {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0}),
    )
}
