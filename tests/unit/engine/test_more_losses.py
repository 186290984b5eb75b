"""Losses on pairs, token weights and losses of one's own, against their formulas and finite differences in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from trainers.errors import RunError
from trainers.losses import LOSSES, PREFERENCE_LOSSES, LossInputs, check_custom_loss, custom_loss, with_kl
from trainers.spec.expression import ExpressionError

BOUNDS = [0, 3, 5, 8, 9]


def inputs(logprobs: torch.Tensor | None = None, **arrays: list[float]) -> LossInputs:
    generator = torch.Generator().manual_seed(1)

    def noise(scale: float) -> torch.Tensor:
        return scale * torch.randn(9, generator=generator, dtype=torch.float64)

    drawn = noise(0.5) - 1.5
    values = {
        "logprobs": drawn + noise(0.6),
        "advantages": noise(1.0),
        "reference_logprobs": drawn + noise(0.8),
        "baseline": torch.full((9,), 0.2, dtype=torch.float64),
        "pair": torch.tensor([7.0] * 5 + [3.0] * 4, dtype=torch.float64),
        "preferred": torch.tensor([1.0] * 3 + [-1.0] * 2 + [1.0] * 3 + [-1.0], dtype=torch.float64),
    }
    values |= {name: torch.tensor(value, dtype=torch.float64) for name, value in arrays.items()}
    return LossInputs(drawn.requires_grad_() if logprobs is None else logprobs, values, BOUNDS)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def preference_written_out(name: str, given: LossInputs, *, beta: float = 0.3, smoothing: float = 0.1) -> float:
    p, reference = given.logprobs.tolist(), given.arrays["reference_logprobs"].tolist()
    r = [sum(p[i] - reference[i] for i in range(a, b)) for a, b in pairwise(BOUNDS)]
    total = 0.0
    for better, worse in ((r[0], r[1]), (r[2], r[3])):
        margin = better - worse
        if name == "dpo":
            total -= (1 - smoothing) * math.log(sigmoid(beta * margin)) + smoothing * math.log(sigmoid(-beta * margin))
        elif name == "ipo":
            total += (margin - 1 / (2 * beta)) ** 2
        else:
            total += 1 - sigmoid(beta * (better - 0.2)) + 1 - sigmoid(beta * (0.2 - worse))
    return total


def settings(name: str) -> dict[str, float]:
    return {"beta": 0.3} | ({"label_smoothing": 0.1} if name == "dpo" else {})


def assert_slope(gradient: torch.Tensor, value: Callable[[LossInputs], float], **arrays: list[float]) -> None:
    start = inputs(**arrays).logprobs.detach()
    for index in range(9):
        slopes = []
        for shift in (1e-6, -1e-6):
            moved = start.clone()
            moved[index] += shift
            slopes.append(value(inputs(moved, **arrays)))
        assert float(gradient[index]) == pytest.approx((slopes[0] - slopes[1]) / 2e-6, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", PREFERENCE_LOSSES)
def test_a_loss_on_pairs_has_the_value_and_the_slope_of_its_formula(name):
    given = inputs()
    output = PREFERENCE_LOSSES[name](given, settings(name))
    assert float(output.total.detach()) == pytest.approx(preference_written_out(name, given), rel=1e-12)
    (gradient,) = torch.autograd.grad(output.total, given.logprobs)
    assert_slope(gradient, lambda moved: preference_written_out(name, moved))


@pytest.mark.parametrize("name", PREFERENCE_LOSSES)
def test_a_pair_is_weighed_at_its_first_token(name):
    weights = [2.0, 0, 0, 2.0, 0, 0.5, 0, 0, 0.5]
    whole = float(PREFERENCE_LOSSES[name](inputs(token_weights=weights), settings(name)).total.detach())
    first, second = (
        float(PREFERENCE_LOSSES[name](inputs(token_weights=part), settings(name)).total.detach())
        for part in ([1.0, 0, 0, 1.0, 0, 0.0, 0, 0, 0], [0, 0, 0, 0, 0, 1.0, 0, 0, 1.0])
    )
    assert whole == pytest.approx(2 * first + 0.5 * second, rel=1e-12)


def test_pairs_in_the_right_order_are_counted():
    better = torch.zeros(9, dtype=torch.float64)
    better[:3] = 1.0
    sums = PREFERENCE_LOSSES["dpo"](inputs(better, reference_logprobs=[0.0] * 9)).sums
    assert (int(sums["pairs"]), int(sums["preferred"])) == (2, 1)
    assert float(sums["reward_chosen"]) == pytest.approx(0.3) and float(sums["reward_rejected"]) == 0.0


@pytest.mark.parametrize("preferred", [[1.0] * 9, [1.0] * 3 + [-1.0] * 6])
def test_a_pair_that_is_not_whole_is_refused(preferred):
    with pytest.raises(ValueError, match="one better and one worse"):
        PREFERENCE_LOSSES["dpo"](inputs(preferred=preferred))


def test_masked_tokens_of_an_answer_do_not_count():
    masked = PREFERENCE_LOSSES["dpo"](inputs(mask=[1.0, 0, 1, 1, 1, 1, 1, 1, 1])).total
    given = inputs()
    given.arrays["reference_logprobs"][1] = given.logprobs.detach()[1]
    assert float(masked.detach()) == pytest.approx(float(PREFERENCE_LOSSES["dpo"](given).total.detach()), rel=1e-12)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_token_weights_weigh_each_tokens_term(name):
    weights = [0.5, 1, 2, 0, 1, 1, 3, 1, 0.25]
    (weighed,) = torch.autograd.grad(LOSSES[name](one := inputs(token_weights=weights)).total, one.logprobs)
    (plain,) = torch.autograd.grad(LOSSES[name](two := inputs()).total, two.logprobs)
    torch.testing.assert_close(weighed, plain * torch.tensor(weights, dtype=torch.float64), rtol=1e-12, atol=1e-15)


def test_the_kl_penalty_follows_token_weights_and_leaves_masked_tokens_out():
    weights, mask = [0.5, 1, 2, 1, 1, 1, 3, 1, 0.25], [1.0, 1, 0, 1, 1, 1, 1, 0, 1]
    given = inputs(token_weights=weights, mask=mask, advantages=[0.0] * 9)
    output = with_kl(LOSSES["ppo"], 0.3)(given)
    d = [r - p for r, p in zip(given.arrays["reference_logprobs"].tolist(), given.logprobs.tolist(), strict=True)]
    expected = sum(0.3 * w * m * (math.exp(x) - x - 1) for w, m, x in zip(weights, mask, d, strict=True))
    assert float(output.total.detach()) == pytest.approx(expected, rel=1e-12)
    assert int(output.sums["kl_tokens"]) == 7


SAME = {
    "ppo": "-minimum(ratio * advantages, clamp(ratio, clip_low, clip_high) * advantages)",
    "importance_sampling": "-ratio * advantages",
    "cispo": "-detach(clamp(ratio, clip_low, clip_high)) * logprobs * advantages",
    "dro": "-(logprobs * advantages - 0.5 * 0.05 * (logprobs - old_logprobs) ** 2)",
    "gspo": "-minimum(exp(mean(detach(logprobs - old_logprobs)) + logprobs - detach(logprobs)) * advantages,"
    " clamp(exp(mean(detach(logprobs - old_logprobs)) + logprobs - detach(logprobs)), 0.8, 1.2) * advantages)",
}


@pytest.mark.parametrize("name", SAME)
def test_a_loss_of_ones_own_equals_the_built_in_one_it_spells_out(name):
    weights = [0.5, 1, 2, 1, 1, 1, 3, 1, 0.25]
    one, two = inputs(token_weights=weights), inputs(token_weights=weights)
    own, built_in = custom_loss(SAME[name])(one).total, LOSSES[name](two).total
    torch.testing.assert_close(own, built_in, rtol=1e-12, atol=1e-14)
    (mine,), (theirs,) = torch.autograd.grad(own, one.logprobs), torch.autograd.grad(built_in, two.logprobs)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


def test_every_function_of_the_language_has_its_slope():
    text = (
        "where(ratio > 1 and not logprobs < -9 or ratio <= 0, log1p(ratio), expm1(-ratio)) + abs(logprobs) / 2"
        " + tanh(logprobs) * sigmoid(logprobs) - logsigmoid(logprobs) + sqrt(ratio) + relu(logprobs + 1.4)"
        " + square(logprobs) + log(ratio + 1) + maximum(logprobs, reference_logprobs) * beta + ratio ** -2"
        " + 0.1 * sum(logprobs) * advantages + mask"
    )
    loss = custom_loss(text)
    given = inputs()
    (gradient,) = torch.autograd.grad(loss(given).total, given.logprobs)
    assert_slope(gradient, lambda moved: float(loss(moved).total))
    check_custom_loss(text)


def test_masked_tokens_have_no_part_in_a_loss_of_ones_own():
    given = inputs(mask=[1.0, 0, 1, 1, 1, 0, 1, 1, 1])
    (gradient,) = torch.autograd.grad(custom_loss("-log(ratio) * advantages")(given).total, given.logprobs)
    assert gradient[1] == gradient[5] == 0 and gradient[0] == -given.arrays["advantages"][0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os').system('x')", "cannot be used"),
        ("logprobs.__class__", "cannot be used"),
        ("open(ratio)", "no function called 'open'"),
        ("ratio * secret", "no value called 'secret'"),
        ("ratio if ratio < 1 else 1", "cannot be used"),
        ("(lambda: ratio)()", "cannot be used"),
        ("[ratio for x in ratio]", "cannot be used"),
        ("ratio[0]", "cannot be used"),
        ("ratio ** advantages", "exponent must be a plain number"),
        ("ratio ** 1000", "up to 8"),
        ("1e300 * ratio", "Numbers may reach"),
        ("ratio < 1", "gives no number"),
        ("(ratio < 1) * ratio", "compares"),
        ("where(ratio, ratio, ratio)", "a number where a comparison is needed"),
        ("exp(ratio, ratio)", "takes 1 values, not 2"),
        ("exp(x=ratio)", "cannot be used"),
        ("1 < ratio < 2", "cannot be used"),
        ("True * ratio", "not a number"),
        ("'a' * ratio", "cannot be used"),
        ("advantages + 1", "nothing to learn"),
        ("", "not a well-formed"),
        ("(" * 900, "not a well-formed"),
        ("-" * 1900 + "ratio", "more than 300 parts"),
        ("ratio\nimport os", "not a well-formed"),
        ("ratio := 1", "not a well-formed"),
    ],
)
def test_what_is_not_a_loss_is_refused_with_the_interface_named(text, words):
    with pytest.raises(ExpressionError, match=r"A loss is one expression per token of logprobs") as caught:
        custom_loss(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("log(advantages) * ratio", "not finite"),
        ("exp(exp(exp(ratio * 8)))", "not finite"),
        ("detach(ratio) * advantages", "no gradient"),
        ("0 * ratio", "no gradient"),
        ("sqrt(abs(logprobs - logprobs)) * ratio", "not finite"),
    ],
)
def test_a_loss_without_a_finite_gradient_is_refused_before_training(text, words):
    with pytest.raises(RunError, match=words) as caught:
        check_custom_loss(text)
    assert caught.value.field == "loss.expression" and "A loss is one expression" in caught.value.advice


def test_a_loss_that_stops_being_finite_is_named():
    with pytest.raises(RunError, match="your own is not finite") as caught:
        custom_loss("log(advantages) * ratio")(inputs())
    assert caught.value.kind == "not_finite"
