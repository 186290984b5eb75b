"""A loss of one's own, written as an expression of the task spec. See :mod:`trainers.spec.expression` for the language.

The expression gives one number per token, to be minimised; the loss is their sum, each by its token weight. Only
elementwise functions of torch are reached, so every expression has a gradient; whether it is finite is tried before
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from trainers.errors import RunError
from trainers.losses.interface import Loss, LossInputs, LossOutput, ratio_sums
from trainers.spec.expression import INTERFACE, Node, parse_expression

_FIELD = "loss.expression"
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "negative": torch.neg,
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "not": torch.logical_not,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "abs": torch.abs,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "logsigmoid": logsigmoid,
    "relu": torch.relu,
    "detach": torch.detach,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "clamp": lambda value, low, high: torch.minimum(torch.maximum(value, low), high),
    "where": torch.where,
}
_SETTINGS = {"clip_low": 0.8, "clip_high": 1.2, "beta": 0.1}


def custom_loss(expression: str) -> Loss:
    """The loss of an expression; its settings are ``clip_low``, ``clip_high`` and ``beta``.

    Raises :class:`trainers.spec.expression.ExpressionError`.
    """
    tree = parse_expression(expression)
    arrays: tuple[str, ...] = ("logprobs", "advantages")
    if "reference_logprobs" in tree.names():
        arrays = (*arrays, "reference_logprobs")

    def function(inputs: LossInputs, config: Mapping[str, float]) -> LossOutput:
        log_ratio, advantages = inputs.log_ratio(), inputs.arrays["advantages"]
        mask = inputs.arrays.get("mask", torch.ones_like(advantages))
        named = {**inputs.arrays, "logprobs": inputs.logprobs, "old_logprobs": inputs.arrays["logprobs"], "mask": mask}
        named |= {name: inputs.logprobs.new_tensor(value) for name, value in config.items()}
        ratio = log_ratio.exp()
        terms = _Evaluation(inputs, {**named, "ratio": ratio}, mask)(tree)
        # Not a product: outside the mask a value may be infinite, and infinity times 0 is not 0.
        total = inputs.sum(torch.where(mask != 0, terms.expand_as(inputs.logprobs), 0.0))
        if not torch.isfinite(total):
            raise RunError("not_finite", "The loss of your own is not finite on this batch.", INTERFACE, _FIELD)
        sums = ratio_sums(log_ratio.detach(), ratio.detach(), advantages, config["clip_low"], config["clip_high"])
        return LossOutput(total, sums)

    return Loss("custom", function, arrays, _SETTINGS)


def check_custom_loss(expression: str, config: Mapping[str, float] | None = None) -> None:
    """Try an expression on plain numbers. Raises ``RunError("bad_data", …)`` if loss or gradient would not be a number
    there, or if the gradient is zero everywhere, so that nothing could be learned."""
    generator = torch.Generator().manual_seed(0)
    drawn = -1.5 + 0.5 * torch.randn(64, generator=generator, dtype=torch.float64)
    logprobs = drawn.clone().clamp(max=-1e-3).requires_grad_()
    shift = 0.1 * torch.randn(64, generator=generator, dtype=torch.float64)
    advantages = torch.randn(64, generator=generator, dtype=torch.float64)
    arrays = {"logprobs": drawn + shift, "advantages": advantages, "reference_logprobs": drawn - shift}
    try:
        total = custom_loss(expression)(LossInputs(logprobs, arrays, range(0, 65, 8)), config).total
        gradient = torch.autograd.grad(total, logprobs)[0] if total.requires_grad else torch.zeros_like(drawn)
    except RunError as error:
        raise _refused("is not finite on plain numbers") from error
    if not torch.isfinite(gradient).all():
        raise _refused("has a gradient that is not finite on plain numbers")
    if not gradient.any():
        raise _refused("has no gradient anywhere, so nothing could be learned")


class _Evaluation:
    """Computes a tree on the values of one batch."""

    def __init__(self, inputs: LossInputs, named: Mapping[str, Tensor], mask: Tensor) -> None:
        self._inputs, self._named, self._mask = inputs, named, mask

    def __call__(self, node: Node) -> Tensor:
        if node.op == "number":
            return self._inputs.logprobs.new_tensor(node.value)
        if node.op == "variable":
            return self._named[str(node.value)]
        parts = [self(part) for part in node.parts]
        if node.op == "power":
            return torch.pow(parts[0], float(node.value))
        if node.op in ("sum", "mean"):
            return self._over_completion(parts[0], mean=node.op == "mean")
        if node.op in ("and", "or"):
            combine = torch.logical_and if node.op == "and" else torch.logical_or
            result = parts[0]
            for part in parts[1:]:
                result = combine(result, part)
            return result
        return _FUNCTIONS[node.op](*parts)

    def _over_completion(self, value: Tensor, *, mean: bool) -> Tensor:
        held = (self._mask != 0).to(self._inputs.logprobs.dtype)
        sums = self._inputs.per_sequence(value.expand_as(self._inputs.logprobs) * held)
        if mean:
            sums = sums / self._inputs.per_sequence(held).clamp(min=1)
        return sums[self._inputs.sequences()]


def _refused(what: str) -> RunError:
    return RunError("bad_data", f"The loss of your own {what}.", INTERFACE, _FIELD)
