"""Frozen linear layers whose rows also pass through the adapters of the current route."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainers.engine.linear import packed_product, product, product_back
from trainers.engine.lora import is_adaptable
from trainers.engine.ready import Ready
from trainers.engine.route import Factors, Group, Route

_STACK_FROM = 2  # stretches from which the low-rank products of a pass without gradients are batched


class AdaptedLinear(nn.Module):
    """One or more linear layers that read the same input, as one product: (…, in) to (…, sum of outputs)."""

    def __init__(self, parts: Sequence[tuple[str, nn.Linear]], route: Route) -> None:
        super().__init__()
        layers = [layer for _, layer in parts]
        bounds = [0]
        for layer in layers:
            bounds.append(bounds[-1] + layer.out_features)
        self.group = Group(tuple(name for name, _ in parts), tuple(bounds), layers[0].in_features)
        self.in_features, self.out_features = layers[0].in_features, bounds[-1]
        one = len(layers) == 1
        weight = layers[0].weight if one else _joined([layer.weight for layer in layers])
        self.weight = weight
        biases = [layer.bias for layer in layers]
        self.bias = biases[0] if one or biases[0] is None else _joined(biases)
        self.route = route
        self.ready: Ready | None = None

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        route = self.route
        if route.anchor is not None and torch.is_grad_enabled():
            parts = route.factors(self.group, x.dtype)
            if parts or flat.requires_grad or self.weight.requires_grad:
                result = _AdaptedLinear.apply(flat, route.anchor, self.weight, self.bias, parts)
                return result.view(*x.shape[:-1], self.out_features)
        if self.ready is None:
            result = product(flat, self.weight, self.bias)
        else:
            result = packed_product(flat, self.ready.weight, self.bias)
        if self.ready is None or not self.ready.merged:
            self._add_adapters(flat, result)
        return result.view(*x.shape[:-1], self.out_features)

    def _add_adapters(self, flat: Tensor, result: Tensor) -> None:
        route = self.route
        if len(route.stretches) >= _STACK_FROM:
            route.add_stacked(self.group, flat, result)
            return
        for start, stop, factors in route.factors(self.group, flat.dtype):
            _add_low(result[start:stop], flat[start:stop], factors)


def _joined(parts: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.cat([part.detach() for part in parts]), requires_grad=False)


def _add_low(result: Tensor, x: Tensor, factors: Factors) -> Tensor:
    low = x @ factors.down.t()
    result.addmm_(low, factors.up.t())
    return low


class _AdaptedLinear(torch.autograd.Function):
    """The gradients of the factors are added where they belong, not handed to autograd; so are those of the weight."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        anchor: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        parts: list[tuple[int, int, Factors]],
    ) -> Tensor:
        result = product(x, weight, bias)
        inner = [_add_low(result[start:stop], x[start:stop], factors) for start, stop, factors in parts]
        ctx.parts = parts
        ctx.bias = bias
        ctx.save_for_backward(x, weight, *inner)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0].contiguous()
        x, weight, *inner = ctx.saved_tensors
        grad_x = product_back(grad, weight) if ctx.needs_input_grad[0] else None
        for (start, stop, factors), low in zip(ctx.parts, inner, strict=True):
            part = grad[start:stop]
            grad_low = part @ factors.up
            if grad_x is not None:
                grad_x[start:stop].addmm_(grad_low, factors.down)
            factors.accumulate(x[start:stop], low, part, grad_low)
        grad_weight = grad.t() @ x if ctx.needs_input_grad[2] else None
        grad_bias = grad.sum(0) if ctx.needs_input_grad[3] else None
        return grad_x, None, grad_weight, grad_bias, None


def adapt(model: nn.Module, route: Route) -> dict[str, AdaptedLinear]:
    """Put an :class:`AdaptedLinear` in place of every linear layer that an adapter may want; returns them by name.

    Layers that already are one (joined ones) are taken as they are, under the names of their parts.
    """
    output = model.get_output_embeddings()  # type: ignore[operator]
    found: dict[str, AdaptedLinear] = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, AdaptedLinear):
            found.update(dict.fromkeys(module.group.names, module))
        elif isinstance(module, nn.Linear) and (module is output or is_adaptable(name)):
            layer = AdaptedLinear([(name, module)], route)
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, layer)
            found[name] = layer
    return found
