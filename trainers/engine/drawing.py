"""Choosing the next token of many rows at once.

One uniform number decides one token (inverse of the distribution function), so a row's randomness is a stream of its
own that does not depend on which rows share its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_CACHED = 512 * 1024  # logits worked on at a time: they stay in a core's cache from the first step to the last
_PIECE = 256  # probabilities are summed in pieces of this size; the draw searches pieces first, then inside one


@dataclass(frozen=True)
class Drawn:
    """Per row: the token, its log-probability at ``logprob_temperature`` and the entropy of that distribution.

    ``top``: (tokens, log-probabilities) of the most likely ones, (R, k) each, where they were asked for.
    """

    tokens: Tensor
    logprobs: Tensor
    entropy: Tensor
    top: tuple[Tensor, Tensor] | None = None


def uniforms(seeds: int | Sequence[int], rows: Sequence[tuple[int, int]], count: int) -> Tensor:
    """(rows, count) numbers in [0, 1), float64. Row ``(prompt, sample)`` depends on its seed and those two alone."""
    given = [seeds] * len(rows) if isinstance(seeds, int) else seeds
    streams = [
        np.random.Generator(
            np.random.Philox(
                key=np.array([seed & (2**64 - 1), 0x54554E45], dtype=np.uint64),
                counter=np.array([0, 0, sample, prompt], dtype=np.uint64),
            )
        )
        for seed, (prompt, sample) in zip(given, rows, strict=True)
    ]
    return torch.from_numpy(np.stack([stream.random(count) for stream in streams]))


def draw(
    logits: Tensor,
    uniform: Tensor,
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int = 0,
    logprob_temperature: float = 1.0,
    top_logprobs: int = 0,
) -> Drawn:
    """One token per row of ``logits`` (R, V); ``uniform`` (R) in [0, 1). Temperature 0 takes the most likely token.

    ``logits`` is overwritten.
    """
    size = max(1, _CACHED // logits.shape[1])
    parts = [
        _draw(part, numbers, temperature, top_p, top_k, logprob_temperature, top_logprobs)
        for part, numbers in zip(logits.split(size), uniform.split(size), strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    tops = [part.top for part in parts if part.top is not None]
    return Drawn(
        torch.cat([part.tokens for part in parts]),
        torch.cat([part.logprobs for part in parts]),
        torch.cat([part.entropy for part in parts]),
        (torch.cat([top[0] for top in tops]), torch.cat([top[1] for top in tops])) if tops else None,
    )


def _draw(
    logits: Tensor,
    uniform: Tensor,
    temperature: float,
    top_p: float,
    top_k: int,
    logprob_temperature: float,
    top_logprobs: int,
) -> Drawn:
    greedy = temperature == 0
    narrowed = not greedy and (top_p < 1 or 0 < top_k < logits.shape[1])
    scaled = logits.float() if logits.dtype not in (torch.float32, torch.float64) else logits
    if logprob_temperature != 1:
        scaled = scaled.div_(logprob_temperature)
    scaled = scaled.sub_(scaled.amax(-1, keepdim=True))
    weights = scaled.exp()
    total = weights.sum(-1)
    if greedy:
        tokens = scaled.argmax(-1)
    else:
        other = temperature != logprob_temperature
        shaped = (scaled * (logprob_temperature / temperature)).exp() if other else weights
        tokens = _narrowed(shaped, uniform, top_p, top_k) if narrowed else _inverse(shaped, uniform)
    log_total = total.log()
    logprobs = scaled.gather(1, tokens[:, None])[:, 0] - log_total
    entropy = log_total - torch.linalg.vecdot(weights, scaled) / total
    best = None
    if top_logprobs:
        values, places = scaled.topk(min(top_logprobs, scaled.shape[1]), dim=-1)
        best = places, values - log_total[:, None]
    return Drawn(tokens, logprobs, entropy, best)


def _inverse(weights: Tensor, uniform: Tensor) -> Tensor:
    """The first token at which the running sum of ``weights`` (R, V) exceeds ``uniform`` times their sum."""
    size = weights.shape[1]
    padding = -size % _PIECE
    if padding:
        weights = functional.pad(weights, (0, padding))
    pieces = weights.view(len(weights), -1, _PIECE)
    running = pieces.sum(-1, dtype=torch.float32).double().cumsum(-1)
    goal = uniform.to(running.device)[:, None] * running[:, -1:]
    piece = torch.searchsorted(running, goal, right=True).clamp_(max=running.shape[1] - 1)
    before = running.gather(1, (piece - 1).clamp(min=0)).where(piece > 0, 0.0)
    inside = pieces[torch.arange(len(weights), device=weights.device), piece[:, 0]].double().cumsum(-1)
    offset = torch.searchsorted(inside, goal - before, right=True)
    # Rounding may leave the goal at the very end of a piece: take the last token there that can be drawn at all.
    last = (inside < inside[:, -1:]).sum(-1, keepdim=True)
    return (piece * _PIECE + torch.minimum(offset, last))[:, 0]


def _narrowed(weights: Tensor, uniform: Tensor, top_p: float, top_k: int) -> Tensor:
    """Draw among the ``top_k`` most likely tokens, and of those among the fewest whose share reaches ``top_p``."""
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    if top_k:
        ordered, order = ordered[:, :top_k], order[:, :top_k]
    if top_p < 1:
        share = ordered.double().cumsum(-1)
        ordered = ordered.masked_fill(share - ordered >= top_p * share[:, -1:], 0.0)
    return order.gather(1, _inverse(ordered, uniform)[:, None])[:, 0]
