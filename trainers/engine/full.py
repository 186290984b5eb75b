"""Full fine-tuning: a trainable copy of all weights of the base model, in the place an adapter would have.

Memory for N parameters: 4 N bytes each for values, gradient and the two moments (float32 always), and 2 N more for a
working copy when the base is bfloat16. SmolLM2-135M in float32: 2.2 GB beside the base's own 0.5 GB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.engine.adapted import AdaptedLinear


@dataclass(frozen=True, slots=True)
class FullConfig:
    """Full fine-tuning. ``seed`` decides the draws of sampling without a seed."""

    seed: int = 0


class FullWeights:
    """All weights of a model as one flat float32 buffer, with gradient and moments as :class:`Adapter` has them.

    ``slices`` names the tensors as the plain model does, also those that the engine has joined into one. Weights that
    the model ties are one tensor here, under the first name. ``frozen``: a copy to sample from, without the rest.
    """

    def __init__(
        self, model: nn.Module, config: FullConfig, *, frozen: bool = False, source: FullWeights | None = None
    ) -> None:
        self.config, self.frozen = config, frozen
        self.steps = self.draws = 0
        self.places, self.slices, size = _places(model)
        parameters = [parameter for _, parameter in self.places]
        self.device = parameters[0].device
        self.values: Tensor = (
            source.values.clone()
            if source is not None
            else torch.cat([parameter.detach().float().flatten() for parameter in parameters])
        )
        rest = 0 if frozen else size
        self.gradient, self.first_moment, self.second_moment = (torch.zeros(rest, device=self.device) for _ in range(3))
        self.parameters: list[nn.Parameter] = []
        for parameter, part in _cut(parameters):
            own = nn.Parameter(self.values[part].view(parameter.shape).to(parameter.dtype), requires_grad=not frozen)
            if not frozen and own.dtype == torch.float32:
                own.grad = self.gradient[part].view(parameter.shape)
            self.parameters.append(own)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model's passes inside the block go through these weights."""
        self._put(self.parameters)
        try:
            yield
        finally:
            self._put([parameter for _, parameter in self.places])

    def _put(self, parameters: list[nn.Parameter]) -> None:
        for (owners, _), parameter in zip(self.places, parameters, strict=True):
            for module, leaf in owners:
                module._parameters[leaf] = parameter

    def collect(self) -> None:
        """Add the gradients of a backward pass in half precision to the float32 ones."""
        for parameter, part in _cut(self.parameters):
            if parameter.dtype != torch.float32 and parameter.grad is not None:
                self.gradient[part] += parameter.grad.flatten()
                parameter.grad = None

    def refresh(self) -> None:
        """Bring working copies in half precision up to date with the values."""
        with torch.no_grad():
            for parameter, part in _cut(self.parameters):
                if parameter.dtype != torch.float32:
                    parameter.copy_(self.values[part].view(parameter.shape))

    def named(self, buffer: Tensor) -> dict[str, Tensor]:
        """Cut one of the flat buffers into tensors by name: views."""
        return {name: buffer[part].view(shape) for name, (part, shape) in self.slices.items()}


def _cut(parameters: Sequence[nn.Parameter]) -> Iterator[tuple[nn.Parameter, slice]]:
    """Each parameter with its part of the flat buffers."""
    offset = 0
    for parameter in parameters:
        stop = offset + parameter.numel()
        yield parameter, slice(offset, stop)
        offset = stop


_Place = tuple[list[tuple[nn.Module, str]], nn.Parameter]


def _places(model: nn.Module) -> tuple[list[_Place], dict[str, tuple[slice, torch.Size]], int]:
    found: dict[int, _Place] = {}
    slices: dict[str, tuple[slice, torch.Size]] = {}
    offset = 0
    for prefix, module in model.named_modules():
        for leaf, parameter in module.named_parameters(recurse=False):
            if id(parameter) in found:
                found[id(parameter)][0].append((module, leaf))
                continue
            name = f"{prefix}.{leaf}" if prefix else leaf
            found[id(parameter)] = ([(module, leaf)], parameter)
            slices.update(_slices(name, leaf, module, parameter, offset))
            offset += parameter.numel()
    return list(found.values()), slices, offset


def _slices(
    name: str, leaf: str, module: nn.Module, parameter: nn.Parameter, offset: int
) -> dict[str, tuple[slice, torch.Size]]:
    if not isinstance(module, AdaptedLinear):
        return {name: (slice(offset, offset + parameter.numel()), parameter.shape)}
    row, parts, bounds = parameter[0].numel(), {}, module.group.bounds
    for part, start, stop in zip(module.group.names, bounds, bounds[1:], strict=False):
        place = slice(offset + start * row, offset + stop * row)
        parts[f"{part}.{leaf}"] = (place, torch.Size((stop - start, *parameter.shape[1:])))
    return parts
