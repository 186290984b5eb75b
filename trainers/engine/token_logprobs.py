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

_CHUNK_ELEMENTS = 16 * 1024 * 1024  # logits made at a time: 64 MB in float32
_KEEP_ELEMENTS = 128 * 1024 * 1024  # probabilities kept for the backward pass: 512 MB; beyond, they are made again


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    rows: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    unembed: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probability of ``targets`` (N) at ``hidden[rows]`` (U x d; rows: N), and the entropy (U, no gradient).

    Logits are ``hidden @ weight.T / temperature``, or those of ``unembed`` where the output layer is more than that
    (it is then differentiated by autograd, chunk by chunk).
    """
    if unembed is None:
        return _TokenLogprobs.apply(hidden, weight, rows, targets, temperature)
    logprobs, entropy = targets.new_zeros(len(targets), dtype=torch.float32), []
    for start, stop in _chunks(len(hidden), weight.shape[0]):
        here = ((rows >= start) & (rows < stop)).nonzero()[:, 0]
        part, chunk_entropy = checkpoint(
            _chunk_logprobs,
            hidden[start:stop],
            rows[here] - start,
            targets[here],
            temperature,
            unembed,
            use_reentrant=False,
        )
        logprobs = logprobs.index_put((here,), part)
        entropy.append(chunk_entropy)
    return logprobs, torch.cat(entropy)


def _chunk_logprobs(
    hidden: Tensor, rows: Tensor, targets: Tensor, temperature: float, unembed: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    logprobs = functional.log_softmax(unembed(hidden).float() / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs[rows, targets], entropy


def _chunks(count: int, vocabulary: int) -> list[tuple[int, int]]:
    size = max(1, _CHUNK_ELEMENTS // vocabulary)
    return [(start, min(start + size, count)) for start in range(0, count, size)]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, rows: Tensor, targets: Tensor, temperature: float
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
            logits = _logits(hidden[start:stop], weight, temperature)
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
                scores = _logits(hidden[start:stop], weight, ctx.temperature)
                scores.sub_(normaliser[start:stop, None]).exp_()
            part, local = grad[first:last], rows[first:last] - start
            scores.mul_(-part.new_zeros(stop - start).index_add_(0, local, part)[:, None])
            scores.index_put_((local, targets[first:last]), part, accumulate=True)
            grad_hidden[start:stop] = (scores.to(weight.dtype) @ weight).div_(ctx.temperature)
        ctx.kept = []
        return grad_hidden, None, None, None, None


def _logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    logits = functional.linear(hidden, weight)
    if logits.dtype not in (torch.float32, torch.float64):
        logits = logits.float()
    return logits.div_(temperature) if temperature != 1.0 else logits
