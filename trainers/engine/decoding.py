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
                own[: len(where), :, : self.time] = own[where, :, : self.time]
                store[layer] = own[: len(where)]
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
        """Attention of one new token per row: to the shared keys of its prompt and to its own keys so far."""
        heads, rows, width = query.shape[1:]
        kv_heads = key.shape[1]
        repeat = heads // kv_heads
        own_keys, own_values = self._remember(layer, key[0], value[0])
        query = (query[0].transpose(0, 1) * scaling).reshape(rows, kv_heads, repeat, width)
        scores = self._prompt_scores(layer, query, window)
        length = scores.shape[-1]
        own = torch.matmul(query, own_keys.transpose(-1, -2))
        if window is not None and self.time >= window:
            own[..., : self.time - window + 1] = float("-inf")
        weights = functional.softmax(torch.cat([scores, own], dim=-1), dim=-1)
        result = self._prompt_values(layer, weights[..., :length])
        return result.add_(torch.matmul(weights[..., length:], own_values)).reshape(1, rows, heads, width)

    def _prompt_scores(self, layer: int, query: Tensor, window: int | None) -> Tensor:
        """query (R, K, r, D) against the keys of each row's prompt: (R, K, r, S)."""
        _, kv_heads, repeat, width = query.shape
        shared = self.shared.keys[layer]
        prompts, length = shared.shape[0], shared.shape[-1]
        # (P·K, slots·r, D): all queries that look at one key head of one prompt
        grouped = self._to_grid(query).view(prompts, self.width, kv_heads, repeat, width).transpose(1, 2)
        grouped = grouped.reshape(prompts * kv_heads, self.width * repeat, width)
        scores = torch.bmm(grouped, shared.view(prompts * kv_heads, width, length))
        scores = scores.view(prompts, kv_heads, self.width, repeat, length)
        mask = self.shared.mask if window is None else self.shared.windowed_mask(window, self.time)
        if mask is not None:
            scores = scores.add_(mask[:, None, None, None, :])
        return self._from_grid(scores.transpose(1, 2).reshape(self.grid, kv_heads, repeat, length))

    def _prompt_values(self, layer: int, weights: Tensor) -> Tensor:
        """weights (R, K, r, S) times the values of each row's prompt: (R, K, r, D)."""
        _, kv_heads, repeat, length = weights.shape
        shared = self.shared.values[layer]
        prompts, width = shared.shape[0], shared.shape[-1]
        share = self._to_grid(weights).view(prompts, self.width, kv_heads, repeat, length).transpose(1, 2)
        share = share.reshape(prompts * kv_heads, self.width * repeat, length)
        result = torch.bmm(share, shared.view(prompts * kv_heads, length, width))
        result = result.view(prompts, kv_heads, self.width, repeat, width).transpose(1, 2)
        return self._from_grid(result.reshape(self.grid, kv_heads, repeat, width))

    def _to_grid(self, rows: Tensor) -> Tensor:
        if self.slots is None:
            return rows
        return rows.new_zeros(self.grid, *rows.shape[1:]).index_copy_(0, self.slots, rows)

    def _from_grid(self, grid: Tensor) -> Tensor:
        return grid if self.slots is None else grid[self.slots]

    def _remember(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store this step's (K, R, D) keys and values; returns all of the rows so far, (R, K, t, D)."""
        at = self.time
        if layer == len(self.own_keys):
            shape = (key.shape[1], key.shape[0], _GROWTH, key.shape[2])
            self.own_keys.append(key.new_empty(shape))
            self.own_values.append(value.new_empty(shape))
        elif at == self.own_keys[layer].shape[2]:
            self.own_keys[layer] = functional.pad(self.own_keys[layer], (0, 0, 0, at))
            self.own_values[layer] = functional.pad(self.own_values[layer], (0, 0, 0, at))
        keys, values = self.own_keys[layer], self.own_values[layer]
        keys[:, :, at] = key.transpose(0, 1)
        values[:, :, at] = value.transpose(0, 1)
        return keys[:, :, : at + 1], values[:, :, : at + 1]


def runs(labels: np.ndarray) -> list[tuple[int, int, int]]:
    """Stretches of equal numbers: (number, start, stop)."""
    if not len(labels):
        return []
    edges = np.flatnonzero(np.diff(labels)) + 1
    starts, stops = [0, *edges.tolist()], [*edges.tolist(), len(labels)]
    return [(int(labels[start]), start, stop) for start, stop in zip(starts, stops, strict=True)]
