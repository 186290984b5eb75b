"""Low-rank adapters beside frozen linear layers: y = x·Wᵀ + (alpha / rank)·(x·Aᵀ)·Bᵀ (Hu et al., arXiv:2106.09685).

One base carries any number of adapters; :mod:`trainers.engine.route` says which rows of a pass go through which.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.engine.route import Group
from trainers.errors import RunError

_ATTENTION = re.compile(r"(^|\.)(self_attn|self_attention|attention|attn)\.")
_MLP = re.compile(r"(^|\.)(mlp|feed_forward|ffn)\.")


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Shape of an adapter. ``seed`` decides the first values of A; B begins at 0, so a new adapter changes nothing.

    ``rslora``: the scale is alpha / √rank (Kalajdzievski 2023, arXiv:2312.03732), so it does not fade as ranks grow.
    """

    rank: int = 16
    alpha: float = 32.0
    attention: bool = True
    mlp: bool = True
    unembedding: bool = False
    seed: int = 0
    rslora: bool = False

    @property
    def scale(self) -> float:
        """What the low-rank product is multiplied by."""
        return self.alpha / (math.sqrt(self.rank) if self.rslora else self.rank)


class Adapter:
    """The factors of one adapter, their gradients and optimizer moments, each one flat float32 buffer.

    ``factors[module]`` is ``(A, B)`` with A (rank, in) and B (out, rank): views of ``values``. ``steps`` counts
    optimizer steps, ``draws`` the sampling calls without a seed. ``frozen``: a copy to sample from, without the rest.
    """

    def __init__(
        self, config: LoraConfig, shapes: dict[str, tuple[int, int]], device: torch.device, *, frozen: bool = False
    ) -> None:
        self.config, self.shapes, self.frozen = config, shapes, frozen
        self.steps = 0
        self.draws = 0
        size = sum(config.rank * (inner + outer) for outer, inner in shapes.values())
        self.values = torch.zeros(size, device=device)
        rest = 0 if frozen else size
        self.gradient, self.first_moment, self.second_moment = (torch.zeros(rest, device=device) for _ in range(3))
        self.factors: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        self.slices: dict[str, tuple[slice, torch.Size]] = {}
        offset = 0
        for module, (outer, inner) in shapes.items():
            pair = []
            for factor, shape in (("A", (config.rank, inner)), ("B", (outer, config.rank))):
                part = slice(offset, offset + shape[0] * shape[1])
                parameter = nn.Parameter(self.values[part].view(shape), requires_grad=not frozen)
                if not frozen:
                    parameter.grad = self.gradient[part].view(shape)
                pair.append(parameter)
                self.slices[f"{module}.lora_{factor}"] = (part, torch.Size(shape))
                offset = part.stop
            self.factors[module] = (pair[0], pair[1])
        if not frozen:
            self._initialise()

    def refresh(self) -> None:
        """Nothing to do after an optimizer step: the factors are views of the values."""

    def _initialise(self) -> None:
        """A by Kaiming's uniform distribution with a = √5, as PEFT does: uniform within ±1/√in."""
        generator = torch.Generator().manual_seed(self.config.seed)
        with torch.no_grad():
            for factor, _ in self.factors.values():
                bound = 1 / math.sqrt(factor.shape[1])
                factor.copy_(torch.rand(factor.shape, generator=generator) * 2 * bound - bound)

    def named(self, buffer: Tensor) -> dict[str, Tensor]:
        """Cut one of the flat buffers into tensors by name (``<module>.lora_A``, ``<module>.lora_B``): views."""
        return {name: buffer[part].view(shape) for name, (part, shape) in self.slices.items()}


def is_attention(name: str) -> bool:
    """Whether a linear layer of this name belongs to the attention of a block."""
    return bool(_ATTENTION.search(name))


def is_adaptable(name: str) -> bool:
    """Whether a linear layer of this name belongs to the attention or the feed-forward part of a block."""
    return bool(_ATTENTION.search(name) or _MLP.search(name))


def adapted_shapes(groups: Sequence[Group], config: LoraConfig, output: str) -> dict[str, tuple[int, int]]:
    """(out, in) of every layer that an adapter of this configuration adapts; ``output``: name of the unembedding.

    Raises ``RunError`` if there is none.
    """
    shapes = {}
    for group in groups:
        for name, shape in group.shapes().items():
            inside = config.attention if _ATTENTION.search(name) else config.mlp
            if config.unembedding if name == output else inside:
                shapes[name] = shape
    if not shapes:
        raise RunError(
            "base_model",
            "The adapter would change no layer of this base model.",
            "Turn on another part of the adapter, or choose a Llama or Qwen model.",
            "model.adapter",
        )
    return shapes
