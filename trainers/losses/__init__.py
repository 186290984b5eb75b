"""Losses by the names of the Tinker protocol, and the interface a loss of one's own fits."""

from __future__ import annotations

from trainers.losses.interface import Loss, LossFunction, LossInputs, LossOutput
from trainers.losses.likelihood import cross_entropy
from trainers.losses.penalty import kl_estimate, with_kl
from trainers.losses.policy import cispo, dro, gspo, importance_sampling, ppo

__all__ = ["LOSSES", "Loss", "LossFunction", "LossInputs", "LossOutput", "kl_estimate", "with_kl"]

_POLICY = ("logprobs", "advantages")
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
