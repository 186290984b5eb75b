"""Decoding: one new token for every row of a wave at a time. A wave is what decodes together.

In each layer a row attends to the keys of its prompt, which stand in memory once per prompt, and to its own. Rows of
one prompt stand together, and so do the prompts of one adapter; rows that end leave the wave.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainers.engine.prompt_keys import PromptKeys

_GROWTH = 32  # tokens by which the memory for keys and values of completions grows


class SharedPromptAttention:
    """The attention pattern of a wave. ``prompt`` (R): which prompt of ``shared`` each row belongs to, ascending."""

    def __init__(self, shared: PromptKeys, prompt: Tensor) -> None:
        self.shared, self.prompt = shared, prompt
        self.time = 0
        self.own_keys: list[Tensor] = []
        self.own_values: list[Tensor] = []
        self._regroup()

    def leave(self, keep: Tensor) -> None:
        """Go on with the rows ``keep`` only."""
        self.prompt = self.prompt[keep]
        where = keep.to(self.shared.lengths.device)
        for store in (self.own_keys, self.own_values):
            for layer, own in enumerate(store):
                kept = own.new_empty(own.shape[0], len(where), *own.shape[2:])
                kept[:, :, : self.time] = own[:, where, : self.time]
                store[layer] = kept
        used = torch.unique(self.prompt)
        if len(used) * 4 <= len(self.shared.lengths) * 3:  # copying the prompts' keys pays only now and then
            self.shared.select(used.to(where.device))
            self.prompt = torch.searchsorted(used, self.prompt)
        self._regroup()

    def _regroup(self) -> None:
        """Give each active row a slot in a (prompt, slot) grid, so that attention to prompts is one batched product."""
        prompts = len(self.shared.lengths)
        counts = torch.bincount(self.prompt, minlength=prompts)
        self.width = int(counts.max())
        first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        slots = self.prompt * self.width + torch.arange(len(self.prompt)) - first
        full = len(slots) == prompts * self.width
        device = self.shared.lengths.device
        self.slots = None if full else slots.to(device)
        self.rows_prompt = self.prompt.to(device)
        self.grid = prompts * self.width

    def positions(self) -> Tensor:
        """Positions (R) of the tokens of this step."""
        return self.shared.lengths[self.rows_prompt] + self.time

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
    ) -> Tensor:
        """Attention of one new token per row: to the shared keys of its prompt and to its own keys so far.

        Key heads stand outermost, then rows: so all queries of a group stand together for their prompt's keys, each row
        for its own, and nothing is moved or repeated in between.
        """
        heads, rows, width = query.shape[1:]
        kv_heads = key.shape[1]
        repeat = heads // kv_heads
        own_keys, own_values = self._remember(layer, key[0], value[0])
        query = query[0].unflatten(0, (kv_heads, repeat)).transpose(1, 2).reshape(kv_heads * rows, repeat, width)
        scores = self._prompt_scores(layer, query, scaling, window)
        length = scores.shape[-1]
        own = torch.baddbmm(query.new_empty(1), query, own_keys.transpose(1, 2), beta=0, alpha=scaling)
        if window is not None and self.time >= window:
            own[..., : self.time - window + 1] = float("-inf")
        weights = functional.softmax(torch.cat([scores, own], dim=-1), dim=-1)
        result = self._prompt_values(layer, weights[..., :length])
        result.baddbmm_(weights[..., length:], own_values)
        return result.view(kv_heads, rows, repeat, width).transpose(0, 1).reshape(1, rows, heads, width)

    def _prompt_scores(self, layer: int, query: Tensor, scaling: float, window: int | None) -> Tensor:
        """query (K·R, r, D) against the keys of each row's prompt: (K·R, r, S)."""
        keys = self.shared.keys[layer]
        kv_heads, prompts, width, length = keys.shape
        grouped = self._to_grid(query, kv_heads).view(kv_heads * prompts, -1, width)
        mask = self.shared.mask if window is None else self.shared.windowed_mask(window, self.time)
        keys = keys.view(kv_heads * prompts, width, length)
        if mask is None:
            scores = torch.baddbmm(query.new_empty(1), grouped, keys, beta=0, alpha=scaling)
        else:
            places = mask.expand(kv_heads, -1, -1).reshape(kv_heads * prompts, 1, length)
            scores = torch.baddbmm(places, grouped, keys, alpha=scaling)
        return self._from_grid(scores.view(-1, query.shape[1], length), kv_heads)

    def _prompt_values(self, layer: int, weights: Tensor) -> Tensor:
        """weights (K·R, r, S) times the values of each row's prompt: (K·R, r, D)."""
        values = self.shared.values[layer]
        kv_heads, prompts, length, width = values.shape
        grouped = self._to_grid(weights, kv_heads)
        grouped = grouped.reshape(kv_heads * prompts, self.width * weights.shape[1], length)
        result = torch.bmm(grouped, values.view(kv_heads * prompts, length, width))
        return self._from_grid(result.view(-1, weights.shape[1], width), kv_heads)

    def _to_grid(self, rows: Tensor, kv_heads: int) -> Tensor:
        """(K·R, …) to (K·prompts·slots, …), with zeros where no row is."""
        if self.slots is None:
            return rows
        grid = rows.new_zeros(kv_heads, self.grid, *rows.shape[1:])
        grid.index_copy_(1, self.slots, rows.unflatten(0, (kv_heads, -1)))
        return grid.flatten(0, 1)

    def _from_grid(self, grid: Tensor, kv_heads: int) -> Tensor:
        if self.slots is None:
            return grid
        return grid.view(kv_heads, self.grid, *grid.shape[1:]).index_select(1, self.slots).flatten(0, 1)

    def _remember(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store this step's (K, R, D) keys and values; returns all of the rows so far, (K·R, t, D)."""
        at = self.time
        if layer == len(self.own_keys):
            shape = (key.shape[0], key.shape[1], _GROWTH, key.shape[2])
            self.own_keys.append(key.new_empty(shape))
            self.own_values.append(value.new_empty(shape))
        elif at == self.own_keys[layer].shape[2]:
            self.own_keys[layer] = functional.pad(self.own_keys[layer], (0, 0, 0, at))
            self.own_values[layer] = functional.pad(self.own_values[layer], (0, 0, 0, at))
        keys, values = self.own_keys[layer], self.own_values[layer]
        keys[:, :, at] = key
        values[:, :, at] = value
        return keys.flatten(0, 1)[:, : at + 1], values.flatten(0, 1)[:, : at + 1]


def runs(labels: np.ndarray) -> list[tuple[int, int, int]]:
    """Stretches of equal numbers: (number, start, stop)."""
    if not len(labels):
        return []
    edges = np.flatnonzero(np.diff(labels)) + 1
    starts, stops = [0, *edges.tolist()], [*edges.tolist(), len(labels)]
    return [(int(labels[start]), start, stop) for start, stop in zip(starts, stops, strict=True)]
