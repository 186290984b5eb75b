"""AdamW with decoupled weight decay (Loshchilov & Hutter, arXiv:1711.05101) on flat buffers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainers.errors import RunError


class Buffers(Protocol):
    """What an optimizer step works on: flat float32 buffers of one size, and the number of steps so far."""

    values: Tensor
    gradient: Tensor
    first_moment: Tensor
    second_moment: Tensor
    steps: int

    def refresh(self) -> None: ...


@dataclass(frozen=True, slots=True)
class AdamParams:
    """Settings of one optimizer step. ``grad_clip_norm`` 0 leaves the gradient as it is."""

    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


def adamw_step(adapter: Buffers, params: AdamParams) -> dict[str, float]:
    """Apply the accumulated gradient and set it to zero; returns ``{"grad_norm": norm before clipping}``.

    Raises ``RunError("not_finite", …)`` for a gradient that is not finite; weights and moments are then unchanged and
    the gradient is dropped.
    """
    gradient = adapter.gradient
    norm = float(torch.linalg.vector_norm(gradient))
    if not math.isfinite(norm):
        gradient.zero_()
        raise RunError(
            "not_finite",
            "The gradient is not finite (NaN or infinite), so the weights were left as they were.",
            "Lower the learning rate, keep gradient clipping on, and look for extreme rewards or advantages.",
            "hyperparameters.learning_rate",
        )
    with torch.no_grad():
        if params.grad_clip_norm and norm > params.grad_clip_norm:
            gradient.mul_(params.grad_clip_norm / (norm + 1e-6))
        adapter.steps += 1
        if params.weight_decay:
            adapter.values.mul_(1 - params.learning_rate * params.weight_decay)
        adapter.first_moment.lerp_(gradient, 1 - params.beta1)
        adapter.second_moment.mul_(params.beta2).addcmul_(gradient, gradient, value=1 - params.beta2)
        correction1 = 1 - params.beta1**adapter.steps
        correction2 = math.sqrt(1 - params.beta2**adapter.steps)
        denominator = adapter.second_moment.sqrt().div_(correction2).add_(params.eps)
        adapter.values.addcdiv_(adapter.first_moment, denominator, value=-params.learning_rate / correction1)
        gradient.zero_()
        adapter.refresh()
    return {"grad_norm": norm}
