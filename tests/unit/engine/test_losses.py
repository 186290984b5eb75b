"""Each loss against its formula, written out token by token, and against finite differences in float64."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from trainers.losses import LOSSES, LossInputs, kl_estimate, with_kl

BOUNDS = [0, 4, 5, 9]
CONFIG = {"clip_low_threshold": 0.7, "clip_high_threshold": 1.4}


def inputs(logprobs: torch.Tensor | None = None) -> LossInputs:
    generator = torch.Generator().manual_seed(1)
    drawn = -1.5 + 0.5 * torch.randn(9, generator=generator, dtype=torch.float64)
    arrays = {
        "logprobs": drawn + 0.6 * torch.randn(9, generator=generator, dtype=torch.float64),
        "advantages": torch.randn(9, generator=generator, dtype=torch.float64),
        "weights": torch.randn(9, generator=generator, dtype=torch.float64),
        "sequence_ratio_mask": torch.tensor([0, 1, 1, 1, 1, 1, 1, 0, 1], dtype=torch.float64),
        "reference_logprobs": drawn + 0.3,
    }
    arrays["advantages"][0] = 0.0
    return LossInputs(drawn.requires_grad_() if logprobs is None else logprobs, arrays, BOUNDS)


def written_out(name: str, given: LossInputs) -> float:
    p = given.logprobs.tolist()
    q, a, w = (given.arrays[key].tolist() for key in ("logprobs", "advantages", "weights"))
    mask = given.arrays["sequence_ratio_mask"].tolist()
    low, high, beta = 0.7, 1.4, 0.05
    total = 0.0
    for start, stop in pairwise(BOUNDS):
        inside = [i for i in range(start, stop) if mask[i]]
        sequence = math.exp(sum(p[i] - q[i] for i in inside) / len(inside))
        for i in range(start, stop):
            r = math.exp(p[i] - q[i])
            if name == "cross_entropy":
                total -= p[i] * w[i]
            elif name == "importance_sampling":
                total -= r * a[i]
            elif name == "ppo":
                total -= min(r * a[i], min(max(r, low), high) * a[i])
            elif name == "cispo":
                total -= min(max(r, low), high) * p[i] * a[i]
            elif name == "dro":
                total -= p[i] * a[i] - 0.5 * beta * (p[i] - q[i]) ** 2
            elif name == "gspo":
                total -= min(sequence * a[i], min(max(sequence, low), high) * a[i])
    return total


def config(name: str) -> dict[str, float]:
    return {key: value for key, value in CONFIG.items() if key in LOSSES[name].defaults}


@pytest.mark.parametrize("name", LOSSES)
def test_the_value_is_that_of_the_formula(name):
    given = inputs()
    assert float(LOSSES[name](given, config(name)).total.detach()) == pytest.approx(written_out(name, given), rel=1e-12)


@pytest.mark.parametrize("name", ["cross_entropy", "importance_sampling", "ppo", "dro"])
def test_the_gradient_is_the_slope_of_the_formula(name):
    given = inputs()
    (gradient,) = torch.autograd.grad(LOSSES[name](given, config(name)).total, given.logprobs)
    for index in range(9):
        slopes = []
        for shift in (1e-6, -1e-6):
            moved = given.logprobs.detach().clone()
            moved[index] += shift
            slopes.append(written_out(name, inputs(moved)))
        assert float(gradient[index]) == pytest.approx((slopes[0] - slopes[1]) / 2e-6, rel=1e-5, abs=1e-8)


def test_cispo_takes_the_clipped_ratio_as_a_constant():
    given = inputs()
    (gradient,) = torch.autograd.grad(LOSSES["cispo"](given, config("cispo")).total, given.logprobs)
    ratio = given.log_ratio().detach().exp().clamp(0.7, 1.4)
    torch.testing.assert_close(gradient, -ratio * given.arrays["advantages"], rtol=1e-12, atol=0)


def test_gspo_gives_each_token_the_ratio_of_its_sequence_and_its_own_gradient():
    given = inputs()
    (gradient,) = torch.autograd.grad(
        LOSSES["gspo"](given, {"clip_low_threshold": 1e-6, "clip_high_threshold": 1e6}).total, given.logprobs
    )
    difference, mask = given.log_ratio().detach(), given.arrays["sequence_ratio_mask"]
    for start, stop in pairwise(BOUNDS):
        ratio = ((difference * mask)[start:stop].sum() / mask[start:stop].sum()).exp()
        torch.testing.assert_close(gradient[start:stop], -ratio * given.arrays["advantages"][start:stop])


def test_cross_entropy_without_weights_counts_every_token_once():
    given = inputs()
    bare = LossInputs(given.logprobs, {}, BOUNDS)
    assert float(LOSSES["cross_entropy"](bare).total.detach()) == pytest.approx(-float(given.logprobs.detach().sum()))


def test_the_kl_penalty_is_added_and_has_its_slope():
    given = inputs()
    plain, penalised = LOSSES["ppo"](given), with_kl(LOSSES["ppo"], 0.3)(given)
    kl = kl_estimate(given.logprobs, given.arrays["reference_logprobs"])
    assert (kl >= 0).all()
    assert float((penalised.total - plain.total).detach()) == pytest.approx(0.3 * float(kl.sum().detach()))
    difference = (
        torch.autograd.grad(penalised.total, given.logprobs)[0] - torch.autograd.grad(plain.total, given.logprobs)[0]
    )
    torch.testing.assert_close(
        difference, 0.3 * (1 - (given.arrays["reference_logprobs"] - given.logprobs.detach()).exp())
    )


def test_clipped_tokens_are_counted_where_the_clip_holds_back():
    given = LossInputs(
        torch.tensor([0.5, 0.5, -0.5, -0.5, 0.0]),
        {"logprobs": torch.zeros(5), "advantages": torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0])},
        [0, 5],
    )
    sums = LOSSES["ppo"](given).sums
    assert int(sums["clipped"]) == 2
    assert int(sums["policy_tokens"]) == 4
    assert float(sums["mismatch"]) == pytest.approx(2.0)


def test_an_unknown_setting_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no setting 'clip'.*clip_low_threshold"):
        LOSSES["ppo"](inputs(), {"clip": 0.2})
