"""What a loss is: log-probabilities of the scored tokens in, one number to minimise out.

Shapes: N is the number of scored tokens of all sequences together, laid end to end; ``bounds`` tells them apart.
A loss is a *sum* over tokens: what is a mean elsewhere is made by the caller's weights or advantages. So the gradients
of several calls add up, and one batch in two halves trains as the batch in one piece. A loss of your own is a
:class:`Loss` whose function keeps to that, or an expression (:mod:`trainers.losses.custom`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossInputs:
    """``logprobs`` (N, with gradient) of the target tokens under the model in training, and what came with them.

    ``arrays`` holds per-token inputs of shape N by the names of the Tinker protocol: ``weights``, ``advantages``,
    ``logprobs`` (of the policy that sampled), ``sequence_ratio_mask``. Besides the protocol's, every policy loss takes
    ``token_weights``, by which the token's term of the sum is multiplied: how a recipe makes its mean. ``mask`` is 0 at
    tokens that the model did not write. Sequence i owns tokens ``bounds[i]`` up to ``bounds[i + 1]``.
    """

    logprobs: Tensor
    arrays: Mapping[str, Tensor]
    bounds: Sequence[int]

    def log_ratio(self) -> Tensor:
        """log p - log q per token: the model in training against the policy that sampled."""
        return self.logprobs - self.arrays["logprobs"]

    def sum(self, terms: Tensor) -> Tensor:
        """Sum of per-token terms (N), each by its ``token_weights`` if there are some."""
        weights = self.arrays.get("token_weights")
        return terms.sum() if weights is None else (terms * weights).sum()

    def sequences(self) -> Tensor:
        """For each token (N) the number of its sequence."""
        edges = torch.as_tensor(self.bounds, device=self.logprobs.device)
        return torch.repeat_interleave(torch.arange(len(edges) - 1, device=edges.device), edges.diff())

    def per_sequence(self, terms: Tensor) -> Tensor:
        """Sums of per-token terms (N) over each sequence (S)."""
        return terms.new_zeros(len(self.bounds) - 1).index_add(0, self.sequences(), terms)


@dataclass(frozen=True)
class LossOutput:
    """``total``: scalar, with gradient. ``sums``: figures without gradient that add up over batches."""

    total: Tensor
    sums: Mapping[str, Tensor] = field(default_factory=dict)


LossFunction = Callable[[LossInputs, Mapping[str, float]], LossOutput]


@dataclass(frozen=True)
class Loss:
    """A loss by name: its function, the arrays it reads, and its settings with their defaults."""

    name: str
    function: LossFunction
    arrays: tuple[str, ...]
    defaults: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, inputs: LossInputs, config: Mapping[str, float] | None = None) -> LossOutput:
        """Raises ``ValueError`` for a missing array or an unknown setting."""
        given = dict(config or {})
        for name in self.arrays:
            if name not in inputs.arrays:
                raise ValueError(f"the loss {self.name} needs {name!r} for every datum")
        for name in given:
            if name not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                raise ValueError(f"the loss {self.name} has no setting {name!r}; it has: {known}")
        return self.function(inputs, {**self.defaults, **given})


def ratio_sums(log_ratio: Tensor, ratio: Tensor, advantages: Tensor, low: float, high: float) -> dict[str, Tensor]:
    """Figures every policy loss reports, over the tokens whose advantage is not 0.

    ``ratio``: sum of p/q. ``clipped``: tokens whose ratio lies outside [low, high] on the side that the advantage
    pushes to. ``mismatch``: sum of |log p - log q|. ``policy_tokens``: how many tokens that is.
    """
    with torch.no_grad():
        counts = advantages != 0
        clipped = ((advantages > 0) & (ratio > high)) | ((advantages < 0) & (ratio < low))
        return {
            "ratio": ratio[counts].sum(),
            "clipped": clipped.sum(),
            "mismatch": log_ratio[counts].abs().sum(),
            "policy_tokens": counts.sum(),
        }
