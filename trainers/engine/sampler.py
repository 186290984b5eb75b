"""Sampling completions: every prompt computed once, its keys and values shared by all its completions.

The prompts are prefilled in one packed row (beginnings that they share are computed once); then all completions decode
together, one token each per pass, as one row of R tokens. In each layer a completion attends to the keys of its prompt,
which stand in memory once per prompt, and to its own. Completions that end leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainers.engine.attention import TreeAttention, attending
from trainers.engine.drawing import Drawn, draw, uniforms
from trainers.engine.packing import lay_out, split_by_tokens

_GROWTH = 32  # tokens by which the memory for keys and values of completions grows
_KV_BYTES = 1_500_000_000  # completions that would need more than this for keys and values wait for the next wave


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """``n`` completions per prompt of at most ``max_tokens``; temperature 0 is greedy, ``top_k`` 0 is off.

    A completion ends with the first of ``stop_tokens``, which is part of it. Log-probabilities are those of the logits
    divided by ``logprob_temperature``, whatever temperature the tokens are drawn at. ``seed`` None draws one.
    """

    max_tokens: int
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_tokens: tuple[int, ...] = ()
    seed: int | None = None
    logprob_temperature: float = 1.0

    def __post_init__(self) -> None:
        checks = (
            (self.max_tokens >= 1, "max_tokens must be at least 1"),
            (self.n >= 1, "n must be at least 1"),
            (self.temperature >= 0, "temperature must not be negative"),
            (0 < self.top_p <= 1, "top_p must be above 0 and at most 1"),
            (self.top_k >= 0, "top_k must not be negative (0 turns it off)"),
            (self.logprob_temperature > 0, "logprob_temperature must be above 0"),
        )
        for good, message in checks:
            if not good:
                raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Completion:
    """``tokens`` include the stop token, ``stopped`` says whether there was one (else the length limit cut it).

    ``logprobs`` and ``entropies`` have one number per token.
    """

    tokens: list[int]
    logprobs: list[float]
    entropies: list[float]
    stopped: bool


class Network(Protocol):
    """What the sampler needs of the engine."""

    dtype: torch.dtype
    device: torch.device
    kv_bytes_per_token: int

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor: ...

    def logits(self, hidden: Tensor) -> Tensor: ...


def sample(
    network: Network,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    seed: int,
    progress: Callable[[float], None],
    prefill_tokens: int,
) -> list[list[Completion]]:
    """``params.n`` completions for each prompt, in order. ``progress`` is told the share done, and may raise."""
    per_row = network.kv_bytes_per_token * params.max_tokens
    room = max(1, _KV_BYTES // per_row)
    waves = _waves(len(prompts), params.n, room)
    results: list[list[Completion]] = [[] for _ in prompts]
    for number, wave in enumerate(waves):
        rows = [(prompt, sample) for prompt, first, last in wave for sample in range(first, last)]
        decoder = _Wave(network, prompts, rows, params, seed, prefill_tokens)
        completions = decoder.run(_part_of(progress, number, len(waves)))
        for completion, (prompt, _) in zip(completions, rows, strict=True):
            results[prompt].append(completion)
    return results


def _part_of(progress: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    return lambda share: progress((number + share) / count)


def _waves(prompts: int, n: int, room: int) -> list[list[tuple[int, int, int]]]:
    """Cut prompts x n completions into waves of at most ``room``: lists of (prompt, first sample, last sample)."""
    count = -(-prompts * n // room)
    size = -(-prompts * n // max(count, 1)) if prompts else 0  # equal waves rather than full ones and a rest
    waves: list[list[tuple[int, int, int]]] = []
    left = 0
    for prompt in range(prompts):
        first = 0
        while first < n:
            if left == 0:
                waves.append([])
                left = size
            take = min(left, n - first)
            waves[-1].append((prompt, first, first + take))
            first, left = first + take, left - take
    return waves


class _PromptKeys:
    """Keys and values of the wave's prompts: per layer (P·K, D, S) and (P·K, S, D) for P prompts padded to S tokens."""

    def __init__(self, network: Network, prompts: Sequence[Sequence[int]], budget: int) -> None:
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=network.device)
        longest = max(len(prompt) for prompt in prompts)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        last_hidden: list[Tensor | None] = [None] * len(prompts)
        for part in split_by_tokens(prompts, budget):
            self._prefill(network, prompts, part, longest, last_hidden)
        self.last_hidden = torch.stack([row for row in last_hidden if row is not None])
        mask = torch.arange(longest, device=network.device)[None, :] >= self.lengths[:, None]
        self.mask = torch.zeros(mask.shape, dtype=network.dtype, device=network.device).masked_fill_(
            mask, float("-inf")
        )

    def _prefill(
        self,
        network: Network,
        prompts: Sequence[Sequence[int]],
        part: list[int],
        longest: int,
        last_hidden: list[Tensor | None],
    ) -> None:
        layout = lay_out([prompts[i] for i in part])
        pattern = TreeAttention(layout, network.dtype, network.device, keep=True)
        with attending(pattern):
            hidden = network.hidden(_tensor(layout.tokens, network), _tensor(layout.positions, network))
        gather = torch.zeros(len(part), longest, dtype=torch.long)
        for row, place in enumerate(layout.places):
            gather[row, : len(place)] = torch.from_numpy(place)
            last_hidden[part[row]] = hidden[int(place[-1])]
        gather = gather.to(network.device)
        kept = pattern.kept or {}
        for layer in range(len(kept)):
            key, value = kept[layer]
            heads, _, width = key.shape
            if layer == len(self.keys):
                shape = (len(prompts), heads, longest, width)
                self.keys.append(key.new_zeros(shape[0], heads, width, longest))
                self.values.append(value.new_zeros(shape))
            self.keys[layer][part] = key[:, gather].permute(1, 0, 3, 2)
            self.values[layer][part] = value[:, gather].transpose(0, 1)

    def select(self, keep: Tensor) -> None:
        """Forget all prompts but ``keep``."""
        longest = int(self.lengths[keep].max())
        self.lengths, self.mask = self.lengths[keep], self.mask[keep, :longest]
        self.keys = [key[keep, :, :, :longest].contiguous() for key in self.keys]
        self.values = [value[keep, :, :longest].contiguous() for value in self.values]


class _Wave:
    """Completions that decode together. The attention pattern of its passes is the object itself."""

    def __init__(
        self,
        network: Network,
        prompts: Sequence[Sequence[int]],
        rows: list[tuple[int, int]],
        params: SamplingParams,
        seed: int,
        prefill_tokens: int,
    ) -> None:
        self.network, self.params, self.seed, self.all_rows = network, params, seed, rows
        used = sorted({prompt for prompt, _ in rows})
        index = {prompt: i for i, prompt in enumerate(used)}
        self.shared = _PromptKeys(network, [prompts[prompt] for prompt in used], prefill_tokens)
        # Of the active rows: number within the wave, and prompt within ``shared``.
        self.active = np.arange(len(rows))
        self.prompt = torch.tensor([index[prompt] for prompt, _ in rows])
        self.time = 0
        self.own_keys: list[Tensor] = []
        self.own_values: list[Tensor] = []
        self.stop = torch.tensor(params.stop_tokens, dtype=torch.long, device=network.device)
        self._regroup()

    def run(self, progress: Callable[[float], None]) -> list[Completion]:
        """Decode until every row has ended."""
        count, limit = len(self.all_rows), self.params.max_tokens
        columns: list[tuple[np.ndarray, Drawn]] = []
        stopped = np.zeros(count, bool)
        logits = self.network.logits(self.shared.last_hidden)[self.prompt.to(self.network.device)]
        chunk = uniforms(self.seed, self.all_rows, min(_GROWTH, limit))
        for self.time in range(limit):
            if self.time and self.time % _GROWTH == 0:
                chunk = self._more_uniforms(chunk, limit)
            drawn = self._draw(logits, chunk[torch.from_numpy(self.active), self.time])
            columns.append((self.active, drawn))
            ended = torch.isin(drawn.tokens, self.stop).cpu().numpy()
            stopped[self.active[ended]] = True
            tokens = drawn.tokens
            if ended.any():
                keep = torch.from_numpy(np.flatnonzero(~ended))
                self._leave(keep)
                tokens = tokens[keep.to(tokens.device)]
            progress((count - len(self.active) * (1 - (self.time + 1) / limit)) / count)
            if not len(self.active) or self.time + 1 == limit:
                break
            positions = self.shared.lengths[self.prompt.to(self.network.device)] + self.time
            with attending(self):
                logits = self.network.logits(self.network.hidden(tokens, positions))
        return self._completions(columns, stopped)

    def _draw(self, logits: Tensor, uniform: Tensor) -> Drawn:
        params = self.params
        return draw(
            logits,
            uniform,
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            logprob_temperature=params.logprob_temperature,
        )

    def _more_uniforms(self, chunk: Tensor, limit: int) -> Tensor:
        # A stream is cheap to start again, and its beginning is the same: no state needs keeping.
        return (
            uniforms(self.seed, self.all_rows, min(2 * chunk.shape[1], limit)) if chunk.shape[1] <= self.time else chunk
        )

    def _leave(self, keep: Tensor) -> None:
        """Go on with the rows ``keep`` (of the active ones) only."""
        self.active = self.active[keep.numpy()]
        self.prompt = self.prompt[keep]
        if not len(self.active):
            return
        where = keep.to(self.network.device)
        for store in (self.own_keys, self.own_values):
            for layer, own in enumerate(store):
                own[: len(where), :, : self.time] = own[where, :, : self.time]
                store[layer] = own[: len(where)]
        used = torch.unique(self.prompt)
        if len(used) * 4 <= len(self.shared.lengths) * 3:  # copying the prompts' keys pays only now and then
            self.shared.select(used.to(self.network.device))
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
        self.slots = None if full else slots.to(self.network.device)
        self.grid = prompts * self.width

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Attention of one new token per row: to the shared keys of its prompt and to its own keys so far."""
        heads, rows, width = query.shape[1:]
        kv_heads = key.shape[1]
        repeat = heads // kv_heads
        own_keys, own_values = self._remember(layer, key[0], value[0])
        query = (query[0].transpose(0, 1) * scaling).reshape(rows, heads, width)
        # (P·K, slots·repeat, D): all queries that look at one key head of one prompt
        grouped = self._to_grid(query).view(-1, self.width, kv_heads, repeat, width).transpose(1, 2)
        prompts = grouped.shape[0]
        grouped = grouped.reshape(prompts * kv_heads, self.width * repeat, width)
        shared_keys = self.shared.keys[layer].view(prompts * kv_heads, width, -1)
        shared_values = self.shared.values[layer].view(prompts * kv_heads, -1, width)
        length = shared_keys.shape[-1]
        scores = torch.bmm(grouped, shared_keys).view(prompts, kv_heads, self.width, repeat, length)
        scores = scores.add_(self.shared.mask[:, None, None, None, :])
        scores = self._from_grid(scores.transpose(1, 2).reshape(self.grid, kv_heads, repeat, length))
        own = torch.matmul(query.view(rows, kv_heads, repeat, width), own_keys.transpose(-1, -2))
        weights = functional.softmax(torch.cat([scores, own], dim=-1), dim=-1)
        share = self._to_grid(weights[..., :length]).view(prompts, self.width, kv_heads, repeat, length).transpose(1, 2)
        result = torch.bmm(share.reshape(prompts * kv_heads, self.width * repeat, length), shared_values)
        result = result.view(prompts, kv_heads, self.width, repeat, width).transpose(1, 2)
        result = self._from_grid(result.reshape(self.grid, kv_heads, repeat, width))
        result = result + torch.matmul(weights[..., length:], own_values)
        return result.reshape(1, rows, heads, width)

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

    def _completions(self, columns: list[tuple[np.ndarray, Drawn]], stopped: np.ndarray) -> list[Completion]:
        results = [Completion([], [], [], bool(flag)) for flag in stopped]
        for rows, drawn in columns:
            figures = zip(drawn.tokens.tolist(), drawn.logprobs.tolist(), drawn.entropy.tolist(), strict=True)
            for row, (token, logprob, entropy) in zip(rows.tolist(), figures, strict=True):
                results[row].tokens.append(token)
                results[row].logprobs.append(logprob)
                results[row].entropies.append(entropy)
        return results


def _tensor(array: np.ndarray, network: Network) -> Tensor:
    return torch.from_numpy(array).to(network.device)
