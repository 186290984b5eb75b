"""Attention over a packed row, plugged into any transformers model that uses the attention interface.

The model calls :func:`packed_attention` in every layer; which tokens see which is decided by the *pattern* that is set
in the model's route for the pass. Shapes: query (1, H, T, D), key and value (1, K, T, D) with K key-value heads, result
(1, T, H, D).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from trainers.engine.packing import Block, Layout
from trainers.engine.route import Route

ATTENTION_NAME = "tuneyard_packed"


def connect(model: nn.Module, route: Route) -> None:
    """Let every attention layer of the model find the pattern of the pass."""
    for module in model.modules():
        if hasattr(module, "layer_idx"):
            module.route = route  # type: ignore[assignment]


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
    for option in ("softcap", "s_aux", "position_bias"):
        if options.get(option) is not None:
            raise ValueError(f"attention with {option} is not supported")
    route: Route = module.route  # type: ignore[assignment]
    layer: int = module.layer_idx  # type: ignore[assignment]
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    return route.attend(layer, query, key, value, scale, options.get("sliding_window")), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, packed_attention)


class TreeAttention:
    """Every token of a :class:`Layout` attends to its ancestors. Keeps keys and values per layer when asked to."""

    def __init__(self, layout: Layout, dtype: torch.dtype, device: torch.device, *, keep: bool = False) -> None:
        self.sizes = [block.stop - block.start for block in layout.blocks]
        self.blocks, self.layout, self.dtype, self.device = layout.blocks, layout, dtype, device
        self.longest = int(layout.positions.max()) + 1
        self._masks: dict[int, list[Tensor | None]] = {}
        self.kept: dict[int, tuple[Tensor, Tensor]] | None = {} if keep else None

    def masks(self, window: int | None) -> list[Tensor | None]:
        """One mask for each block, for layers with this window (made once)."""
        reach = window if window is not None and window < self.longest else 0
        if reach not in self._masks:
            self._masks[reach] = [
                _mask(self.layout, block, self.blocks, reach, self.dtype, self.device) for block in self.blocks
            ]
        return self._masks[reach]

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
    ) -> Tensor:
        if self.kept is not None:
            self.kept[layer] = (key[0], value[0])
        grouped = key.shape[1] != query.shape[1]
        queries, keys, values = (part.split(self.sizes, dim=2) for part in (query, key, value))
        results = []
        for index, (block, mask) in enumerate(zip(self.blocks, self.masks(window), strict=True)):
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


def _mask(
    layout: Layout, block: Block, blocks: tuple[Block, ...], reach: int, dtype: torch.dtype, device: torch.device
) -> Tensor | None:
    """Additive mask (own, ancestors + own) of a block; None where plain causal attention says the same.

    ``reach`` above 0: a token sees only those less than so many positions before it.
    """
    if block.chain and not block.ancestors and not reach:
        return None
    rows = torch.arange(block.start, block.stop)[:, None]
    ends = torch.from_numpy(layout.ends[block.start : block.stop])[None, :]
    visible = (rows.t() <= rows) & (rows < ends)
    above = [torch.arange(blocks[i].start, blocks[i].stop) for i in block.ancestors]
    if above:
        visible = torch.cat([visible.new_ones(len(rows), sum(len(part) for part in above)), visible], dim=1)
    if reach:
        positions = torch.from_numpy(layout.positions)
        columns = torch.cat([*above, rows[:, 0]])
        visible &= positions[rows] - positions[columns][None, :] < reach
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, float("-inf"))
    return mask.to(device)
