"""Sampling completions: every prompt computed once, its keys and values shared by all its completions.

The prompts are prefilled in one packed row (beginnings that they share are computed once); then the completions of all
requests, whatever adapter they are for, decode together, one token each per pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from trainers.engine.decoding import SharedPromptAttention, runs
from trainers.engine.drawing import Drawn, draw, uniforms
from trainers.engine.lora import Adapter
from trainers.engine.prompt_keys import Network, Prompt, PromptKeys
from trainers.engine.sampling_params import (
    Completion,
    PromptScores,
    Sampled,
    SampleRequest,
    SamplingParams,
)
from trainers.engine.stops import StopStrings

__all__ = ["Completion", "PromptScores", "SampleRequest", "Sampled", "SamplingParams", "sample"]

_AHEAD = 32  # random numbers drawn at a time for each row
_KV_BYTES = 1_500_000_000  # completions that would need more than this for keys and values wait for the next wave


@dataclass(frozen=True, slots=True)
class Row:
    """One completion: of which request, prompt and sample; ``owner`` numbers the adapters of the call."""

    owner: int
    request: int
    prompt: int
    sample: int
    limit: int


def sample(
    network: Network,
    requests: Sequence[SampleRequest],
    adapters: Sequence[Adapter | None],
    owners: Sequence[int],
    seeds: Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    progress: Callable[[float], None],
    prefill_tokens: int,
) -> list[Sampled]:
    """Answer all requests together. Request i goes through ``adapters[owners[i]]`` and draws from ``seeds[i]``.

    ``progress`` is told the share done, and may raise. The route must be open (:meth:`Route.open`).
    """
    rows = [
        Row(owners[index], index, prompt, number, request.params.max_tokens)
        for index, request in enumerate(requests)
        for prompt in range(len(request.prompts))
        for number in range(request.params.n)
    ]
    rows.sort(key=lambda row: row.owner)
    waves = _waves(rows, network.kv_bytes_per_token)
    results = [Sampled([[] for _ in one.prompts], [None] * len(one.prompts)) for one in requests]
    for number, wave in enumerate(waves):
        decoder = _Wave(network, requests, wave, adapters, seeds, tokenizer, prefill_tokens)
        completions = decoder.run(_part_of(progress, number, len(waves)))
        for completion, row in zip(completions, wave, strict=True):
            results[row.request].groups[row.prompt].append(completion)
        for (request, prompt), scores in decoder.prompt_scores.items():
            results[request].prompts[prompt] = scores
    return results


def _part_of(progress: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    return lambda share: progress((number + share) / count)


def _waves(rows: list[Row], kv_bytes_per_token: int) -> list[list[Row]]:
    """Cut the rows into waves of about equal size whose own keys and values fit into the memory set aside for them."""
    needed = [row.limit * kv_bytes_per_token for row in rows]
    count = -(-sum(needed) // _KV_BYTES) or 1
    room = max(sum(needed) / count, max(needed))
    waves: list[list[Row]] = []
    used = 0.0
    for row, size in zip(rows, needed, strict=True):
        if not waves or used + size > room * (1 + 1e-9):
            waves.append([])
            used = 0.0
        waves[-1].append(row)
        used += size
    return waves


class _Wave:
    """Completions that decode together."""

    def __init__(
        self,
        network: Network,
        requests: Sequence[SampleRequest],
        rows: list[Row],
        adapters: Sequence[Adapter | None],
        seeds: Sequence[int],
        tokenizer: PreTrainedTokenizerBase,
        prefill_tokens: int,
    ) -> None:
        self.network, self.requests, self.rows, self.adapters = network, requests, rows, adapters
        self.seeds = [seeds[row.request] for row in rows]
        used = sorted({(row.owner, row.request, row.prompt) for row in rows})
        index = {key: number for number, key in enumerate(used)}
        prompts = [_prompt(requests[request], owner, prompt) for owner, request, prompt in used]
        shared = PromptKeys(network, prompts, adapters, prefill_tokens)
        self.prompt_scores = {key[1:]: scores for key, scores in zip(used, shared.scores, strict=True)}
        self.first_hidden, self.prompt_owner = shared.last_hidden, np.array([key[0] for key in used])
        of_row = torch.tensor([index[row.owner, row.request, row.prompt] for row in rows])
        self.attention = SharedPromptAttention(shared, of_row)
        self.active = np.arange(len(rows))
        self.owner = np.array([row.owner for row in rows])
        self.limit = np.array([row.limit for row in rows])
        self.settings = np.array([row.request for row in rows])
        self.stops = _StopRules([request.params for request in requests], self.settings, tokenizer)
        self.results = [Completion([], [], [], False) for _ in rows]
        self.stopped = np.zeros(len(rows), bool)

    def run(self, progress: Callable[[float], None]) -> list[Completion]:
        """Decode until every row has ended."""
        count, longest = len(self.rows), int(self.limit.max())
        self._divide(self.prompt_owner)
        logits = self.network.logits(self.first_hidden)[self.attention.rows_prompt]
        self._divide(self.owner)
        chunk = self._uniforms(min(_AHEAD, longest))
        for time in range(longest):
            if time == chunk.shape[1]:  # a stream is cheap to start again, and its beginning is the same
                chunk = self._uniforms(min(2 * time, longest))
            tokens = self._draw(logits, chunk[torch.from_numpy(self.active), time])
            ended = self.stops.ended(tokens, self.active, self.results)
            self.stopped[self.active[ended]] = True
            keep = torch.from_numpy(np.flatnonzero(~ended & (self.limit[self.active] > time + 1)))
            progress((count - len(keep) * (1 - (time + 1) / longest)) / count)
            if not len(keep):
                break
            if len(keep) < len(self.active):
                self.active = self.active[keep.numpy()]
                self.attention.time = time
                self.attention.leave(keep)
                self._divide(self.owner[self.active])
                tokens = tokens[keep.to(tokens.device)]
            self.attention.time = time
            with self.network.route.attending(self.attention):
                logits = self.network.logits(self.network.hidden(tokens, self.attention.positions()))
        return [
            Completion(one.tokens, one.logprobs, one.entropies, bool(stopped), one.top)
            for one, stopped in zip(self.results, self.stopped, strict=True)
        ]

    def _divide(self, owners: np.ndarray) -> None:
        self.network.route.divide([(self.adapters[owner], start, stop) for owner, start, stop in runs(owners)])

    def _uniforms(self, count: int) -> Tensor:
        return uniforms(self.seeds, [(row.prompt, row.sample) for row in self.rows], count)

    def _draw(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """Draw a token for every active row, each by the settings of its request, and note it down; tokens (R)."""
        tokens: list[Tensor] = []
        for request, start, stop in _same_settings(self.requests, self.settings[self.active]):
            params = self.requests[request].params
            one = draw(
                logits[start:stop],
                uniform[start:stop].to(logits.device),
                temperature=params.temperature,
                top_p=params.top_p,
                top_k=params.top_k,
                logprob_temperature=params.logprob_temperature,
                top_logprobs=params.top_logprobs,
            )
            self._note(self.active[start:stop], one)
            tokens.append(one.tokens)
        return torch.cat(tokens)

    def _note(self, rows: np.ndarray, drawn: Drawn) -> None:
        figures = zip(drawn.tokens.tolist(), drawn.logprobs.tolist(), drawn.entropy.tolist(), strict=True)
        for row, (token, logprob, entropy) in zip(rows.tolist(), figures, strict=True):
            result = self.results[row]
            result.tokens.append(token)
            result.logprobs.append(logprob)
            result.entropies.append(entropy)
        if drawn.top is not None:
            for row, tokens, values in zip(rows.tolist(), drawn.top[0].tolist(), drawn.top[1].tolist(), strict=True):
                self.results[row].top.append(list(zip(tokens, values, strict=True)))


class _StopRules:
    """When the rows of each request end."""

    def __init__(
        self, params: Sequence[SamplingParams], of_row: np.ndarray, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.of_row = of_row
        self.tokens = [np.array(one.stop_tokens, dtype=np.int64) for one in params]
        self.strings = [StopStrings(tokenizer, one.stop_strings) if one.stop_strings else None for one in params]

    def ended(self, tokens: Tensor, active: np.ndarray, results: list[Completion]) -> np.ndarray:
        """Which of the active rows end with the token (R) just drawn and noted down."""
        drawn = tokens.cpu().numpy()
        ended = np.zeros(len(drawn), bool)
        for request, start, stop in runs(self.of_row[active]):
            ended[start:stop] = np.isin(drawn[start:stop], self.tokens[request])
            strings = self.strings[request]
            if strings is not None:
                for place in range(start, stop):
                    ended[place] = ended[place] or strings.ended(results[active[place]].tokens)
        return ended


def _prompt(request: SampleRequest, owner: int, prompt: int) -> Prompt:
    params = request.params
    top = params.top_prompt_logprobs if params.prompt_logprobs or params.top_prompt_logprobs else None
    return Prompt(owner, request.prompts[prompt], top, params.logprob_temperature)


def _same_settings(requests: Sequence[SampleRequest], of_row: np.ndarray) -> list[tuple[int, int, int]]:
    """Stretches of rows that are drawn alike: (a request with these settings, start, stop)."""
    stretches: list[tuple[int, int, int]] = []
    for request, start, stop in runs(of_row):
        if stretches and _settings(requests[stretches[-1][0]].params) == _settings(requests[request].params):
            stretches[-1] = (stretches[-1][0], stretches[-1][1], stop)
        else:
            stretches.append((request, start, stop))
    return stretches


def _settings(params: SamplingParams) -> tuple[float, ...]:
    return (params.temperature, params.top_p, params.top_k, params.logprob_temperature, params.top_logprobs)
