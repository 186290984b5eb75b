"""From rollouts to what a policy loss is computed on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainers.engine.batch import Datum
from trainers.recipes.rollouts import Rollout

Normalization = Literal["token", "sequence", "constant"]


@dataclass
class Sample:
    """A rollout with what is learned from it; all lists have one number per token after the prompt.

    ``reference``: log-probabilities under the model that training started from. ``proximal``: those of the policy just
    before the update, where they are not those of the policy that sampled.
    """

    rollout: Rollout
    advantages: list[float]
    reference: list[float] | None = None
    proximal: list[float] | None = None

    @property
    def silent(self) -> bool:
        """Whether its policy gradient is zero."""
        return not any(self.advantages)

    def scored(self) -> Datum:
        """For computing log-probabilities."""
        return Datum(
            [*self.rollout.prompt.tokens, *self.rollout.completion.tokens[:-1]], self.rollout.completion.tokens
        )

    def datum(self, weight: float, importance_cap: float | None) -> Datum:
        """For a policy loss, each of the model's tokens weighed by ``weight``.

        With ``proximal`` and a cap C the weight also has the factor min(proximal / sampled, C), and ratios are taken to
        ``proximal``: truncated importance sampling (Ionides 2008; for policies one step behind: decoupled PPO, Hilton
        et al. 2022, arXiv:2110.00641, and AReaL, arXiv:2505.24298, eq. 5).
        """
        own = self.rollout.weights
        old = self.rollout.completion.logprobs
        weights = [weight * mine for mine in own]
        if self.proximal is not None and importance_cap is not None:
            ratios = [min(math.exp(min(p - q, 50.0)), importance_cap) for p, q in zip(self.proximal, old, strict=True)]
            weights = [w * ratio for w, ratio in zip(weights, ratios, strict=True)]
            old = self.proximal
        advantages = [advantage * mine for advantage, mine in zip(self.advantages, own, strict=True)]
        arrays = {"logprobs": old, "advantages": advantages, "token_weights": weights}
        arrays |= {"mask": own, "sequence_ratio_mask": own}
        if self.reference is not None:
            arrays["reference_logprobs"] = self.reference
        bare = self.scored()
        return Datum(bare.tokens, bare.targets, arrays)


def token_weights(rollouts: Sequence[Rollout], kind: Normalization, limit: int) -> list[float]:
    """The weight of each of a rollout's tokens in the loss of a batch, which is a sum over tokens.

    ``token``: 1 / Σ lengths (DAPO, arXiv:2503.14476, eq. 8). ``sequence``: 1 / (B · length) for B completions (GRPO,
    arXiv:2402.03300, eq. 3). ``constant``: 1 / (B · ``limit``) (Dr. GRPO, arXiv:2503.20783, §3.3).
    """
    count, total = len(rollouts), sum(rollout.length for rollout in rollouts)
    if kind == "token":
        return [1 / max(1, total)] * count
    if kind == "constant":
        return [1 / (count * limit)] * count
    return [1 / (count * max(1, rollout.length)) for rollout in rollouts]
