from __future__ import annotations

import pytest
import torch

from trainers.engine import token_logprobs as module
from trainers.engine.token_logprobs import token_logprobs


def case(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, generator=generator, dtype=dtype).requires_grad_()
    weight = torch.randn(11, 5, generator=generator, dtype=dtype)
    rows, targets = torch.tensor([0, 6, 2, 2, 3, 0, 2]), torch.tensor([1, 10, 4, 4, 0, 3, 9])
    return hidden, weight, rows, targets, torch.randn(7, generator=generator, dtype=dtype)


@pytest.mark.parametrize("chunk", [11, 33, 10_000])
@pytest.mark.parametrize("keep", [0, 10_000])
@pytest.mark.parametrize("own", [False, True])
def test_it_equals_log_softmax_and_its_gradient(monkeypatch, chunk, keep, own):
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(module, "_KEEP_ELEMENTS", keep)
    hidden, weight, rows, targets, outer = case(torch.float32 if own else torch.float64)
    unembed = (lambda h, first: h @ weight.t()) if own else None
    logprobs, entropy = token_logprobs(hidden, weight, rows, targets, temperature=0.7, unembed=unembed)
    (found,) = torch.autograd.grad((logprobs * outer).sum(), hidden)
    plain = (hidden @ weight.t() / 0.7).log_softmax(-1)
    (expected,) = torch.autograd.grad((plain[rows, targets] * outer).sum(), hidden)
    torch.testing.assert_close(logprobs, plain[rows, targets])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(entropy, -(plain.exp() * plain).sum(-1).detach())


def test_extreme_logits_stay_finite():
    hidden = torch.tensor([[300.0, -300.0]], requires_grad=True)
    logprobs, entropy = token_logprobs(hidden, torch.eye(2), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert logprobs.tolist() == [0.0, -600.0]
    assert torch.isfinite(entropy).all()
    logprobs.sum().backward()
    assert torch.isfinite(hidden.grad).all()
