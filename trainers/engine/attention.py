"""Attention over a packed row, plugged into any transformers model that uses the attention interface.

The model calls :func:`packed_attention` in every layer; which tokens see which is decided by the *pattern* that the
engine has set for the pass (:func:`attending`). Shapes: query (1, H, T, D), key and value (1, K, T, D) with K key-value
heads, result (1, T, H, D).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from trainers.engine.packing import Block, Layout

ATTENTION_NAME = "tuneyard_packed"


class Pattern(Protocol):
    """Computes attention for one layer of one pass."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor: ...


_pattern: ContextVar[Pattern] = ContextVar("pattern")


@contextmanager
def attending(pattern: Pattern) -> Iterator[None]:
    """Use ``pattern`` for every attention call inside the block."""
    token = _pattern.set(pattern)
    try:
        yield
    finally:
        _pattern.reset(token)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """The attention function registered with transformers. Masks come from the pattern, never from the model."""
    for option in ("softcap", "s_aux", "sliding_window"):
        if options.get(option) is not None:
            raise ValueError(f"attention with {option} is not supported")
    layer: int = module.layer_idx  # type: ignore[assignment]
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return _pattern.get()(layer, query, key, value, scale), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)


class TreeAttention:
    """Every token of a :class:`Layout` attends to its ancestors. Keeps keys and values per layer when asked to."""

    def __init__(self, layout: Layout, dtype: torch.dtype, device: torch.device, *, keep: bool = False) -> None:
        self.sizes = [block.stop - block.start for block in layout.blocks]
        self.blocks = layout.blocks
        self.masks = [_mask(layout, block, self.sizes, dtype, device) for block in layout.blocks]
        self.kept: dict[int, tuple[Tensor, Tensor]] | None = {} if keep else None

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if self.kept is not None:
            self.kept[layer] = (key[0], value[0])
        grouped = key.shape[1] != query.shape[1]
        queries, keys, values = (part.split(self.sizes, dim=2) for part in (query, key, value))
        results = []
        for index, (block, mask) in enumerate(zip(self.blocks, self.masks, strict=True)):
            seen = (*block.ancestors, index)
            results.append(
                functional.scaled_dot_product_attention(
                    queries[index],
                    torch.cat([keys[i] for i in seen], dim=2),
                    torch.cat([values[i] for i in seen], dim=2),
                    attn_mask=mask,
                    is_causal=mask is None,
                    scale=scaling,
                    enable_gqa=grouped,
                )
            )
        return torch.cat(results, dim=2).transpose(1, 2)


def _mask(layout: Layout, block: Block, sizes: list[int], dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Additive mask (own, ancestors + own) of a block; None where plain causal attention says the same."""
    if block.chain and not block.ancestors:
        return None
    own = block.stop - block.start
    rows = torch.arange(block.start, block.stop)[:, None]
    columns = torch.arange(block.start, block.stop)[None, :]
    ends = torch.from_numpy(layout.ends[block.start : block.stop])[None, :]
    visible = (columns <= rows) & (rows < ends)
    mask = torch.zeros(own, sum(sizes[i] for i in block.ancestors) + own, dtype=dtype)
    mask[:, -own:].masked_fill_(~visible, float("-inf"))
    return mask.to(device)
