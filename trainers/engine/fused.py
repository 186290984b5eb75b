"""The blocks of Llama's family with fewer passes over memory: same parameters, same mathematics, fewer operations.

Query, key and value come out of one product, and so do gate and up; rotary positions and the gated activation are one
step each, for which the backward pass keeps only the input. Blocks of other shapes stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.engine.adapted import AdaptedLinear
from trainers.engine.route import Route

_ATTENTION_CLASSES = {
    "LlamaAttention",
    "MistralAttention",
    "MixtralAttention",
    "Qwen2Attention",
    "Qwen2MoeAttention",
    "Qwen3Attention",
    "Qwen3MoeAttention",
    "SmolLM3Attention",
}
_GATED = ("gate_proj", "up_proj", "down_proj")


def fuse_blocks(model: nn.Module, route: Route) -> int:
    """Replace the attention and feed-forward blocks that are known; returns how many."""
    replaced = 0
    for name, module in list(model.named_modules()):
        fused: nn.Module | None = None
        if type(module).__name__ in _ATTENTION_CLASSES and _same_bias(module, ("q_proj", "k_proj", "v_proj")):
            fused = FusedAttention(name, module, route)
        elif _is_gated(module):
            fused = FusedMlp(name, module, route)
        if fused is not None:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, fused)
            replaced += 1
    return replaced


def _same_bias(module: nn.Module, leaves: tuple[str, ...]) -> bool:
    layers = [getattr(module, leaf, None) for leaf in leaves]
    if not all(isinstance(layer, nn.Linear) for layer in layers):
        return False
    return len({layer.bias is None for layer in layers if layer is not None}) == 1


def _is_gated(module: nn.Module) -> bool:
    children = dict(module.named_children())
    if not set(_GATED) <= children.keys() or set(children) - {*_GATED, "act_fn"}:
        return False
    activation = children.get("act_fn", getattr(module, "act_fn", None))
    return type(activation).__name__ in ("SiLU", "SiLUActivation") and _same_bias(module, _GATED[:2])


class FusedMlp(nn.Module):
    """down(silu(gate(x)) · up(x)) (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, name: str, module: Any, route: Route) -> None:
        super().__init__()
        self.gate_up = AdaptedLinear([(f"{name}.{leaf}", getattr(module, leaf)) for leaf in _GATED[:2]], route)
        self.down_proj = AdaptedLinear([(f"{name}.down_proj", module.down_proj)], route)

    def forward(self, x: Tensor) -> Tensor:
        both = self.gate_up(x)
        if both.requires_grad:
            return self.down_proj(_Gated.apply(both))
        gate, up = both.chunk(2, dim=-1)
        return self.down_proj(functional.silu(gate).mul_(up))


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> Tensor:
        ctx.save_for_backward(both)
        gate, up = both.chunk(2, dim=-1)
        return functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (both,) = ctx.saved_tensors
        gate, up = both.chunk(2, dim=-1)
        result = torch.empty_like(both)
        to_gate, to_up = result.chunk(2, dim=-1)
        torch.mul(grads[0], functional.silu(gate), out=to_up)
        to_gate.copy_(torch.ops.aten.silu_backward(grads[0] * up, gate))
        return result


class FusedAttention(nn.Module):
    """Attention with grouped key-value heads and rotary positions; ``q_norm``, ``k_norm`` where the model has them."""

    def __init__(self, name: str, module: Any, route: Route) -> None:
        super().__init__()
        parts = [(f"{name}.{leaf}", getattr(module, leaf)) for leaf in ("q_proj", "k_proj", "v_proj")]
        self.qkv = AdaptedLinear(parts, route)
        self.o_proj = AdaptedLinear([(f"{name}.o_proj", module.o_proj)], route)
        self.q_norm, self.k_norm = getattr(module, "q_norm", None), getattr(module, "k_norm", None)
        self.layer_idx, self.scaling, self.width = module.layer_idx, module.scaling, module.head_dim
        self.heads = parts[0][1].out_features // self.width
        self.kv_heads = parts[1][1].out_features // self.width
        self.route = route
        self.rotary = bool(getattr(module, "use_rope", True))
        # Mistral and Mixtral keep the window in their configuration.
        kept = type(module).__name__ in ("MistralAttention", "MixtralAttention")
        self.window = getattr(module.config if kept else module, "sliding_window", None)

    def forward(
        self, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor], **options: Any
    ) -> tuple[Tensor, None]:
        count = hidden_states.shape[1]
        mixed = self.qkv(hidden_states[0]).view(count, self.heads + 2 * self.kv_heads, self.width)
        rotated = self.heads + self.kv_heads
        if self.q_norm is not None and self.k_norm is not None:
            query, key, value = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
            mixed = torch.cat([self.q_norm(query), self.k_norm(key), value], dim=1)
        if self.rotary:
            cos, sin = position_embeddings
            mixed = _rotate(mixed, cos[0].to(mixed.dtype), sin[0].to(mixed.dtype), rotated)
        query, key, value = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        query, key, value = (part.transpose(0, 1)[None] for part in (query, key, value))
        result = self.route.attend(self.layer_idx, query, key, value, self.scaling, self.window)
        return self.o_proj(result.reshape(1, count, self.heads * self.width)), None


def _rotate(mixed: Tensor, cos: Tensor, sin: Tensor, heads: int) -> Tensor:
    """Rotary positions (Su et al. 2021, arXiv:2104.09864), the two halves of a head as pairs, for the first ``heads``.

    mixed (T, H, D) is query, key and value; cos and sin (T, D) repeat themselves after D/2.
    """
    half = mixed.shape[-1] // 2
    cos, sin = cos[:, None, :half], sin[:, None, :half]
    if mixed.requires_grad:
        return _Rotated.apply(mixed, cos, sin, heads)
    return _turn(mixed, torch.empty_like(mixed), cos, sin, heads, 1.0)


def _turn(source: Tensor, target: Tensor, cos: Tensor, sin: Tensor, heads: int, sign: float) -> Tensor:
    half = source.shape[-1] // 2
    first, second = source[:, :heads, :half], source[:, :heads, half:]
    torch.mul(first, cos, out=target[:, :heads, :half])
    target[:, :heads, :half].addcmul_(second, sin, value=-sign)
    torch.mul(second, cos, out=target[:, :heads, half:])
    target[:, :heads, half:].addcmul_(first, sin, value=sign)
    target[:, heads:] = source[:, heads:]
    return target


class _Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mixed: Tensor, cos: Tensor, sin: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.heads = heads
        return _turn(mixed, torch.empty_like(mixed), cos, sin, heads, 1.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _turn(grads[0], torch.empty_like(grads[0]), cos, sin, ctx.heads, -1.0), None, None, None
