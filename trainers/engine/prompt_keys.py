"""Prompts computed once: their keys and values, and the log-probabilities of their own tokens where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from trainers.engine.attention import TreeAttention
from trainers.engine.lora import Adapter
from trainers.engine.packing import lay_out, split_by_tokens
from trainers.engine.route import Route
from trainers.engine.sampling_params import PromptScores

_SCORED_ROWS = 256  # of a prompt's own tokens, whose logits are made at a time


class Network(Protocol):
    """What the sampler needs of the engine."""

    dtype: torch.dtype
    device: torch.device
    kv_bytes_per_token: int
    route: Route

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor: ...

    def logits(self, hidden: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Prompt:
    """A prompt of one adapter (``owner`` is its number among ``adapters``); ``top`` None: its tokens are not scored."""

    owner: int
    tokens: Sequence[int]
    top: int | None = None
    temperature: float = 1.0


class PromptKeys:
    """Keys and values of prompts: per layer (K, P, D, S) and (K, P, S, D) for P prompts padded to S tokens.

    The prompts are ordered by owner. ``last_hidden`` (P, d): what the first token of a completion is drawn from.
    """

    def __init__(
        self, network: Network, prompts: Sequence[Prompt], adapters: Sequence[Adapter | None], budget: int
    ) -> None:
        self.network, self.prompts, self.adapters = network, prompts, adapters
        self.lengths = torch.tensor([len(prompt.tokens) for prompt in prompts], device=network.device)
        self.longest = max(len(prompt.tokens) for prompt in prompts)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.scores: list[PromptScores | None] = [None] * len(prompts)
        self._last: list[Tensor | None] = [None] * len(prompts)
        sequences, owners = [prompt.tokens for prompt in prompts], [prompt.owner for prompt in prompts]
        for part in split_by_tokens(sequences, budget, owners):
            self._prefill(part)
        self.last_hidden = torch.stack([row for row in self._last if row is not None])
        self.mask = self._mask()

    def _prefill(self, part: list[int]) -> None:
        network = self.network
        layout = lay_out([self.prompts[i].tokens for i in part], [self.prompts[i].owner for i in part])
        pattern = TreeAttention(layout, network.dtype, network.device, keep=True)
        network.route.divide([(self.adapters[owner], start, stop) for owner, start, stop in layout.owners])
        with network.route.attending(pattern):
            hidden = network.hidden(_tensor(layout.tokens, network), _tensor(layout.positions, network))
        gather = torch.zeros(len(part), self.longest, dtype=torch.long)
        for row, place in enumerate(layout.places):
            gather[row, : len(place)] = torch.from_numpy(place)
            self._last[part[row]] = hidden[int(place[-1])]
            self._score(part[row], hidden, place)
        gather = gather.to(network.device)
        kept = pattern.kept or {}
        for layer in range(len(kept)):
            key, value = kept[layer]
            heads, _, width = key.shape
            if layer == len(self.keys):
                self.keys.append(key.new_zeros(heads, len(self.prompts), width, self.longest))
                self.values.append(value.new_zeros(heads, len(self.prompts), self.longest, width))
            self.keys[layer][:, part] = key[:, gather].transpose(2, 3)
            self.values[layer][:, part] = value[:, gather]

    def _score(self, index: int, hidden: Tensor, place: np.ndarray) -> None:
        prompt, network = self.prompts[index], self.network
        if prompt.top is None:
            return
        targets = torch.tensor(list(prompt.tokens[1:]), device=network.device)
        logprobs: list[float] = []
        top: list[list[tuple[int, float]]] = []
        for start in range(0, len(targets), _SCORED_ROWS):
            here = torch.from_numpy(place[start : min(start + _SCORED_ROWS, len(targets))]).to(network.device)
            network.route.divide([(self.adapters[prompt.owner], 0, len(here))])
            scores = network.logits(hidden[here])
            work = scores.float() if scores.dtype == torch.bfloat16 else scores
            scores = (work / prompt.temperature).log_softmax(-1)
            logprobs += scores.gather(1, targets[start : start + len(here), None])[:, 0].tolist()
            if prompt.top:
                values, tokens = scores.topk(min(prompt.top, scores.shape[1]), dim=-1)
                top += [list(zip(*row, strict=True)) for row in zip(tokens.tolist(), values.tolist(), strict=True)]
        self.scores[index] = PromptScores(logprobs, top)

    def _mask(self) -> Tensor | None:
        """(P, S) additive; None when no prompt is padded."""
        if bool((self.lengths == self.longest).all()):
            return None
        beyond = torch.arange(self.longest, device=self.network.device)[None, :] >= self.lengths[:, None]
        return self._additive(beyond)

    def windowed_mask(self, window: int, time: int) -> Tensor | None:
        """(P, S) additive, for tokens that stand ``time`` places after the prompts and see ``window`` places."""
        if self.longest + time < window:
            return self.mask
        places = torch.arange(self.longest, device=self.network.device)[None, :]
        ends = self.lengths[:, None]
        return self._additive((places >= ends) | (places <= ends + time - window))

    def _additive(self, hidden: Tensor) -> Tensor:
        zeros = torch.zeros(hidden.shape, dtype=self.network.dtype, device=self.network.device)
        return zeros.masked_fill_(hidden, float("-inf"))

    def select(self, keep: Tensor) -> None:
        """Forget all prompts but ``keep``."""
        self.lengths = self.lengths[keep]
        self.longest = int(self.lengths.max())
        self.keys = [key[:, keep, :, : self.longest].contiguous() for key in self.keys]
        self.values = [value[:, keep, : self.longest].contiguous() for value in self.values]
        self.mask = self._mask()


def _tensor(array: np.ndarray, network: Network) -> Tensor:
    return torch.from_numpy(array).to(network.device)
