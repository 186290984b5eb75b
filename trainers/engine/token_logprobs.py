"""Log-probabilities of target tokens without ever holding the logits of a whole batch.

U hidden states (each unique position once) times the unembedding (V, d) give U x V logits: with 768 positions and a
vocabulary of 49152 that is 151 MB, several times over in plain autograd. Here they are made in chunks of one buffer,
turned into probabilities in place, and turned into their own gradient in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainers.engine.linear import product, product_back

_CHUNK_ELEMENTS = 16 * 1024 * 1024  # logits made at a time: 64 MB in float32
_KEEP_ELEMENTS = 128 * 1024 * 1024  # probabilities kept for the backward pass: 512 MB; beyond, they are made again


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    rows: Tensor,
    targets: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    unembed: Callable[[Tensor, int], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probability of ``targets`` (N) at ``hidden[rows]`` (U x d; rows: N), and the entropy (U, no gradient).

    Logits are ``hidden @ weight.T / temperature`` (a number, or one for each hidden state: (U, 1)), or those of
    ``unembed(hidden states, number of the first)`` where the output layer is more than that (it is then differentiated
    by autograd, chunk by chunk).
    """
    if unembed is None:
        return _TokenLogprobs.apply(hidden, weight, rows, targets, temperature)
    work = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    logprobs, entropy = targets.new_zeros(len(targets), dtype=work), []
    for start, stop in _chunks(len(hidden), weight.shape[0]):
        here = ((rows >= start) & (rows < stop)).nonzero()[:, 0]
        part, chunk_entropy = checkpoint(
            _chunk_logprobs,
            hidden[start:stop],
            rows[here] - start,
            targets[here],
            _part(temperature, start, stop),
            unembed,
            start,
            use_reentrant=False,
        )
        logprobs = logprobs.index_put((here,), part)
        entropy.append(chunk_entropy)
    return logprobs, torch.cat(entropy)


def _chunk_logprobs(
    hidden: Tensor,
    rows: Tensor,
    targets: Tensor,
    temperature: float | Tensor,
    unembed: Callable[[Tensor, int], Tensor],
    first: int,
) -> tuple[Tensor, Tensor]:
    logits = unembed(hidden, first)
    work = logits if logits.dtype == torch.float64 else logits.float()
    logprobs = functional.log_softmax(work / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs[rows, targets], entropy


def _chunks(count: int, vocabulary: int) -> list[tuple[int, int]]:
    size = max(1, _CHUNK_ELEMENTS // vocabulary)
    return [(start, min(start + size, count)) for start in range(0, count, size)]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, rows: Tensor, targets: Tensor, temperature: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        work = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        order = torch.argsort(rows, stable=True)
        rows, targets = rows[order], targets[order]
        logprobs = hidden.new_empty(len(rows), dtype=work)
        entropy = hidden.new_empty(len(hidden), dtype=work)
        normaliser = hidden.new_empty(len(hidden), dtype=work)
        keep = ctx.needs_input_grad[0] and len(hidden) * len(weight) <= _KEEP_ELEMENTS
        kept = []
        for start, stop in _chunks(len(hidden), len(weight)):
            first, last = torch.searchsorted(rows, torch.tensor([start, stop], device=rows.device)).tolist()
            logits = _logits(hidden[start:stop], weight, _part(temperature, start, stop))
            chosen = logits[rows[first:last] - start, targets[first:last]]
            top = logits.amax(-1, keepdim=True)
            logits.sub_(top)
            probabilities = logits.exp()
            total = probabilities.sum(-1, keepdim=True)
            probabilities.div_(total)
            log_total = total.log()
            entropy[start:stop] = (log_total - torch.linalg.vecdot(probabilities, logits).unsqueeze(-1))[:, 0]
            normaliser[start:stop] = (top + log_total)[:, 0]
            logprobs[first:last] = chosen - normaliser[rows[first:last]]
            if keep:
                kept.append(probabilities)
        ctx.temperature, ctx.kept = temperature, kept
        ctx.save_for_backward(hidden, weight, rows, targets, order, normaliser)
        result = torch.empty_like(logprobs)
        result[order] = logprobs
        ctx.mark_non_differentiable(entropy)
        return result, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, rows, targets, order, normaliser = ctx.saved_tensors
        grad = grads[0][order]
        grad_hidden = torch.empty_like(hidden)
        for index, (start, stop) in enumerate(_chunks(len(hidden), len(weight))):
            first, last = torch.searchsorted(rows, torch.tensor([start, stop], device=rows.device)).tolist()
            if ctx.kept:
                scores, ctx.kept[index] = ctx.kept[index], None
            else:
                scores = _logits(hidden[start:stop], weight, _part(ctx.temperature, start, stop))
                scores.sub_(normaliser[start:stop, None]).exp_()
            part, local = grad[first:last], rows[first:last] - start
            scores.mul_(-part.new_zeros(stop - start).index_add_(0, local, part)[:, None])
            scores.index_put_((local, targets[first:last]), part, accumulate=True)
            part_hidden = product_back(scores.to(weight.dtype), weight)
            grad_hidden[start:stop] = part_hidden.div_(_part(ctx.temperature, start, stop))
        ctx.kept = []
        return grad_hidden, None, None, None, None


def _part(temperature: float | Tensor, start: int, stop: int) -> float | Tensor:
    return temperature[start:stop] if isinstance(temperature, Tensor) else temperature


def _logits(hidden: Tensor, weight: Tensor, temperature: float | Tensor) -> Tensor:
    logits = product(hidden, weight)
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    return logits if isinstance(temperature, float) and temperature == 1.0 else logits.div_(temperature)
