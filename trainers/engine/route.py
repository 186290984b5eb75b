"""Which rows of a pass go through which adapter, and the factors of those adapters made ready for matrix products.

A pass is one row of T tokens. Its rows are divided into *stretches*, each of one adapter. Layers that read the same
input (query, key and value; gate and up) form one *group*: their factors A stand below one another, so that one product
serves them all, and their factors B stand on the diagonal of a block matrix, already multiplied by the scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainers.engine.lora import Adapter

Stretch = tuple["Adapter | None", int, int]


class Pattern(Protocol):
    """Computes attention for one layer of one pass: which token sees which.

    ``window``: a token sees at most so many, itself included.
    """

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
    ) -> Tensor: ...


@dataclass(frozen=True)
class Group:
    """Layers that share an input: their ``names``, and where the outputs of each stand (``bounds``)."""

    names: tuple[str, ...]
    bounds: tuple[int, ...]
    inner: int

    def shapes(self) -> dict[str, tuple[int, int]]:
        """(out, in) by name."""
        widths = zip(self.names, self.bounds, self.bounds[1:], strict=False)
        return {name: (stop - start, self.inner) for name, start, stop in widths}


class Factors:
    """The factors of one adapter for one group: ``down`` (k, in) and ``up`` (out, k) with k the ranks of its layers."""

    def __init__(self, adapter: Adapter, group: Group, dtype: torch.dtype) -> None:
        self.scale = adapter.config.scale
        self.members = [
            (index, adapter.factors[name]) for index, name in enumerate(group.names) if name in adapter.factors
        ]
        self.rank, self.bounds = adapter.config.rank, group.bounds
        with torch.no_grad():
            self.down = torch.cat([pair[0].detach() for _, pair in self.members]).to(dtype)
            self.up = self.down.new_zeros(group.bounds[-1], len(self.members) * self.rank)
            for place, (index, (_, factor)) in enumerate(self.members):
                columns = slice(place * self.rank, (place + 1) * self.rank)
                self.up[group.bounds[index] : group.bounds[index + 1], columns] = factor.detach() * self.scale

    def accumulate(self, x: Tensor, low: Tensor, grad: Tensor, grad_low: Tensor) -> None:
        """Add to the adapter's gradient: x (R, in), low = x·downᵀ (R, k), grad (R, out), grad_low = grad·up (R, k)."""
        downward = grad_low.t() @ x
        for place, (index, (down, up)) in enumerate(self.members):
            rows = slice(place * self.rank, (place + 1) * self.rank)
            columns = slice(self.bounds[index], self.bounds[index + 1])
            assert down.grad is not None and up.grad is not None
            down.grad.add_(downward[rows])
            if up.grad.dtype == grad.dtype:
                up.grad.addmm_(grad[:, columns].t(), low[:, rows], alpha=self.scale)
            else:
                up.grad.add_(grad[:, columns].t() @ low[:, rows], alpha=self.scale)


@dataclass(frozen=True)
class Stack:
    """Factors of several adapters for one group, padded to one rank: ``down`` (n, k, in) and ``up`` (n, out, k)."""

    down: Tensor
    up: Tensor

    @classmethod
    def of(cls, factors: Sequence[Factors | None], like: Tensor, group: Group) -> Stack:
        """Adapters without a factor for the group count as zeros."""
        rank = max(part.down.shape[0] for part in factors if part is not None)
        down = like.new_zeros(len(factors), rank, group.inner)
        up = like.new_zeros(len(factors), group.bounds[-1], rank)
        for index, part in enumerate(factors):
            if part is not None:
                down[index, : part.down.shape[0]] = part.down
                up[index, :, : part.down.shape[0]] = part.up
        return cls(down, up)

    def product(self, x: Tensor) -> Tensor:
        """x (n, R, in) through the first factor: (n, R, k)."""
        return torch.bmm(x, self.down.transpose(1, 2))


@dataclass
class Route:
    """The current division of rows, shared by all layers, with what was made ready for it."""

    stretches: list[Stretch] = field(default_factory=list)
    pattern: Pattern | None = None
    anchor: Tensor | None = None  # requires a gradient while training, so that autograd records the adapted layers
    _factors: dict[tuple[int, int], Factors | None] = field(default_factory=dict)
    _stacks: dict[int, Stack | None] = field(default_factory=dict)
    _adapters: list[Adapter] = field(default_factory=list)
    _rows: Tensor | None = None
    _slots: Tensor | None = None
    _width: int = 0
    _whole: bool = False

    @contextmanager
    def open(self, *, train: bool = False, device: str = "cpu") -> Iterator[None]:
        """A division of its own for the passes inside the block, made by :meth:`divide`; at first no row is adapted."""
        before = dict(self.__dict__)
        self.__dict__.update(Route().__dict__)
        self.anchor = torch.zeros(1, device=device, requires_grad=True) if train else None
        try:
            yield
        finally:
            self.__dict__.update(before)

    def divide(self, stretches: Sequence[Stretch]) -> None:
        """Change the division of the rows; the factors made ready are kept, so the weights must not have changed."""
        self.stretches = [part for part in stretches if part[0] is not None and part[2] > part[1]]
        adapters = list(dict.fromkeys(adapter for adapter, _, _ in self.stretches if adapter is not None))
        if {id(one) for one in adapters} - {id(one) for one in self._adapters}:
            self._adapters = adapters
            self._stacks.clear()
        self._slots = None

    @contextmanager
    def attending(self, pattern: Pattern) -> Iterator[None]:
        """Use ``pattern`` for every attention layer inside the block."""
        before, self.pattern = self.pattern, pattern
        try:
            yield
        finally:
            self.pattern = before

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
    ) -> Tensor:
        """Attention of one layer under the current pattern."""
        if self.pattern is None:
            raise RuntimeError("a pass needs a pattern of attention")
        return self.pattern(layer, query, key, value, scaling, window)

    def factors(self, group: Group, dtype: torch.dtype) -> list[tuple[int, int, Factors]]:
        """The parts of the pass that adapt this group: (first row, end, factors)."""
        found = []
        for adapter, start, stop in self.stretches:
            factors = self._of(adapter, group, dtype) if adapter is not None else None
            if factors is not None:
                found.append((start, stop, factors))
        return found

    def _of(self, adapter: Adapter, group: Group, dtype: torch.dtype) -> Factors | None:
        key = (id(adapter), id(group))
        if key not in self._factors:
            present = any(name in adapter.factors for name in group.names)
            self._factors[key] = Factors(adapter, group, dtype) if present else None
        return self._factors[key]

    def add_stacked(self, group: Group, x: Tensor, result: Tensor) -> None:
        """Add the low-rank products of many stretches to ``result`` (R, out) in two batched products. No gradient."""
        if id(group) not in self._stacks:
            factors = [self._of(adapter, group, x.dtype) for adapter in self._adapters]
            found = any(part is not None for part in factors)
            self._stacks[id(group)] = Stack.of(factors, x, group) if found else None
        stack = self._stacks[id(group)]
        if stack is None:
            return
        slots, rows = self._grid(x.device)
        count, width = len(self._adapters), self._width
        if self._whole and len(x) == count * width:
            low = stack.product(x.view(count, width, -1))
            result.view(count, width, -1).baddbmm_(low, stack.up.transpose(1, 2))
            return
        grid = x.new_zeros(count * width, x.shape[1]).index_copy_(0, slots, x[rows])
        change = torch.bmm(stack.product(grid.view(count, width, -1)), stack.up.transpose(1, 2))
        result.index_add_(0, rows, change.view(count * width, -1)[slots])

    def _grid(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Where each adapted row stands in an (adapter, place) grid, and which rows those are."""
        if self._slots is None or self._rows is None:
            number = {id(adapter): index for index, adapter in enumerate(self._adapters)}
            taken = [0] * len(self._adapters)
            places, rows = [], []
            for adapter, start, stop in self.stretches:
                index = number[id(adapter)]
                places.append((index, taken[index] + np.arange(stop - start)))
                rows.append(np.arange(start, stop))
                taken[index] += stop - start
            self._width = max(taken)
            slots = np.concatenate([index * self._width + place for index, place in places])
            every = np.concatenate(rows)
            whole = np.arange(len(taken) * self._width)
            self._whole = np.array_equal(slots, whole) and np.array_equal(every, whole)
            self._slots, self._rows = (torch.from_numpy(part).to(device) for part in (slots, every))
        return self._slots, self._rows
