"""Low-rank adapters beside frozen linear layers: y = x·Wᵀ + (alpha / rank)·(x·Aᵀ)·Bᵀ (Hu et al., arXiv:2106.09685).

One base carries any number of adapters. A *route* says which rows of a pass belong to which adapter, so the rows of
several adapters can share a pass through the base weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.errors import RunError

_ATTENTION = re.compile(r"(^|\.)(self_attn|self_attention|attention|attn)\.")
_MLP = re.compile(r"(^|\.)(mlp|feed_forward|ffn)\.")


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Shape of an adapter. ``seed`` decides the first values of A; B begins at 0, so a new adapter changes nothing."""

    rank: int = 16
    alpha: float = 32.0
    attention: bool = True
    mlp: bool = True
    unembedding: bool = False
    seed: int = 0

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


class Adapter:
    """The factors of one adapter, their gradients and optimizer moments, each one flat float32 buffer.

    ``factors[module]`` is ``(A, B)`` with A (rank, in) and B (out, rank): views of ``values``. ``steps`` counts
    optimizer steps, ``draws`` the sampling calls without a seed.
    """

    def __init__(self, config: LoraConfig, shapes: dict[str, tuple[int, int]], device: torch.device) -> None:
        self.config = config
        self.steps = 0
        self.draws = 0
        size = sum(config.rank * (inner + outer) for outer, inner in shapes.values())
        self.values, self.gradient = torch.zeros(size, device=device), torch.zeros(size, device=device)
        self.first_moment, self.second_moment = torch.zeros(size, device=device), torch.zeros(size, device=device)
        self.factors: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        self.slices: dict[str, tuple[slice, torch.Size]] = {}
        offset = 0
        for module, (outer, inner) in shapes.items():
            pair = []
            for factor, shape in (("A", (config.rank, inner)), ("B", (outer, config.rank))):
                part = slice(offset, offset + shape[0] * shape[1])
                parameter = nn.Parameter(self.values[part].view(shape))
                parameter.grad = self.gradient[part].view(shape)
                pair.append(parameter)
                self.slices[f"{module}.lora_{factor}"] = (part, torch.Size(shape))
                offset = part.stop
            self.factors[module] = (pair[0], pair[1])
        self._initialise()

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


@dataclass
class Route:
    """Which adapter each stretch of rows goes through; None is the bare base model. Shared by all layers."""

    stretches: list[tuple[Adapter | None, int, int]] = field(default_factory=list)

    @contextmanager
    def through(self, stretches: list[tuple[Adapter | None, int, int]]) -> Iterator[None]:
        """Send rows ``[start, stop)`` of every pass inside the block through the adapter named with them."""
        before, self.stretches = self.stretches, [part for part in stretches if part[0] is not None]
        try:
            yield
        finally:
            self.stretches = before


class LoraLinear(nn.Module):
    """A frozen linear layer whose rows also pass through the adapters of the current route."""

    def __init__(self, base: nn.Linear, name: str, route: Route) -> None:
        super().__init__()
        self.weight, self.bias = base.weight, base.bias
        self.in_features, self.out_features = base.in_features, base.out_features
        self.name, self.route = name, route

    def forward(self, x: Tensor) -> Tensor:
        parts = [
            (start, stop, adapter.config.scale, *adapter.factors[self.name])
            for adapter, start, stop in self.route.stretches
            if adapter is not None and self.name in adapter.factors
        ]
        if not parts:
            return functional.linear(x, self.weight, self.bias)
        flat = x.reshape(-1, x.shape[-1])
        factors = [factor for part in parts for factor in part[3:]]
        result = _AdaptedLinear.apply(flat, self.weight, self.bias, [part[:3] for part in parts], *factors)
        return result.view(*x.shape[:-1], self.out_features)


class _AdaptedLinear(torch.autograd.Function):
    """Base and low-rank products written into one result; the base weight never gets a gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stretches: list[tuple[int, int, float]],
        *factors: Tensor,
    ) -> Tensor:
        result = functional.linear(x, weight, bias)
        inner = []
        for index, (start, stop, scale) in enumerate(stretches):
            down, up = factors[2 * index].to(x.dtype), factors[2 * index + 1].to(x.dtype)
            low = x[start:stop] @ down.t()
            result[start:stop].addmm_(low, up.t(), alpha=scale)
            inner.append(low)
        ctx.stretches = stretches
        ctx.save_for_backward(x, weight, *factors, *inner)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        grad = grad.contiguous()
        count = len(ctx.stretches)
        x, weight, *rest = ctx.saved_tensors
        factors, inner = rest[: 2 * count], rest[2 * count :]
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_factors: list[Tensor | None] = []
        for index, (start, stop, scale) in enumerate(ctx.stretches):
            down, up, low = factors[2 * index], factors[2 * index + 1], inner[index]
            part = grad[start:stop]
            grad_low = (part @ up.to(part.dtype)).mul_(scale)
            grad_factors.append((grad_low.t() @ x[start:stop]).to(down.dtype))
            grad_factors.append((part.t() @ low).mul_(scale).to(up.dtype))
            if grad_x is not None:
                grad_x[start:stop].addmm_(grad_low, down.to(part.dtype))
        return grad_x, None, None, None, *grad_factors


def adapt(model: nn.Module, route: Route) -> dict[str, LoraLinear]:
    """Put a :class:`LoraLinear` in place of every linear layer that an adapter may want; returns them by name."""
    output = model.get_output_embeddings()  # type: ignore[operator]
    found: dict[str, LoraLinear] = {}
    for name, module in list(model.named_modules()):
        if not isinstance(module, nn.Linear) or not (module is output or _ATTENTION.search(name) or _MLP.search(name)):
            continue
        layer = LoraLinear(module, name, route)
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, layer)
        found[name] = layer
    return found


def adapted_shapes(layers: dict[str, LoraLinear], config: LoraConfig, output: nn.Module) -> dict[str, tuple[int, int]]:
    """(out, in) of every layer that an adapter of this configuration adapts. Raises ``RunError`` if there is none."""
    shapes = {}
    for name, layer in layers.items():
        inside = config.attention if _ATTENTION.search(name) else config.mlp
        if config.unembedding if layer is output else inside:
            shapes[name] = (layer.out_features, layer.in_features)
    if not shapes:
        raise RunError(
            "base_model",
            "The adapter would change no layer of this base model.",
            "Turn on another part of the adapter, or choose a Llama or Qwen model.",
            "model.adapter",
        )
    return shapes
