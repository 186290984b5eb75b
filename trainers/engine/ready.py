"""Weights made ready for sampling: an adapter merged into them, and laid out the way oneDNN reads them fastest.

A sampling call goes through the same weights at every step. On CPUs in float32, copies in oneDNN's own layout make each
product faster (95 against 80 GFLOP/s on one core of an AMD EPYC with AVX-512, 64 rows), and where all rows go through
one adapter, a copy of W + scale·B·A saves the two low-rank products of every layer. Both are used when the rows and
steps of a call repay the copying. That depends on the call alone, never on what is held, so that equal calls give equal
bits. Copies of base weights are kept for later calls; merged ones go with the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainers.engine.linear import ONEDNN, pack
from trainers.engine.route import Factors

if TYPE_CHECKING:
    from trainers.engine.adapted import AdaptedLinear
    from trainers.engine.lora import Adapter

_ROOM_BYTES = 1_500_000_000  # models whose copies would be larger are sampled from their own weights
_FEWEST_ROWS = 8
_ENOUGH = 512  # rows (counted up to 64) times steps from which copying pays


@dataclass(frozen=True)
class Ready:
    """A weight for products without a gradient; ``merged``: the adapter of all rows is in it."""

    weight: Tensor
    merged: bool


class ReadyWeights:
    """The copies of the layers of one engine."""

    def __init__(self, layers: Sequence[AdaptedLinear]) -> None:
        self.layers = list(dict.fromkeys(layers))
        self._base = [layer.weight for layer in self.layers]
        self._kept: dict[int, Tensor] = {}
        size = sum(weight.numel() * weight.element_size() for weight in self._base)
        plain = all(weight.dtype == torch.float32 and not weight.is_cuda for weight in self._base)
        self.possible = plain and size <= _ROOM_BYTES and ONEDNN

    def pays(self, rows: int, steps: int) -> bool:
        """Whether a call of so many rows, of at most so many tokens each, repays the copies."""
        return self.possible and rows >= _FEWEST_ROWS and min(rows, 64) * steps >= _ENOUGH

    @contextmanager
    def during(self, adapters: Sequence[Adapter | None], rows: int, steps: int) -> Iterator[None]:
        """Products of the passes inside the block, which go through these adapters, use the copies if they pay."""
        if not self.pays(rows, steps):
            yield
            return
        adapter = adapters[0] if len(set(adapters)) == 1 else None
        try:
            with torch.no_grad():
                for index, layer in enumerate(self.layers):
                    layer.ready = self._merged(layer, adapter) or Ready(self._plain(index, layer), merged=False)
            yield
        finally:
            for layer in self.layers:
                layer.ready = None

    @staticmethod
    def _merged(layer: AdaptedLinear, adapter: Adapter | None) -> Ready | None:
        if adapter is None or not any(name in adapter.factors for name in layer.group.names):
            return None
        factors = Factors(adapter, layer.group, layer.weight.dtype)
        return Ready(pack(torch.addmm(layer.weight, factors.up, factors.down)), merged=True)

    def _plain(self, index: int, layer: AdaptedLinear) -> Tensor:
        if layer.weight is not self._base[index]:  # a full copy of the weights is in its place
            return pack(layer.weight)
        if index not in self._kept:
            self._kept[index] = pack(layer.weight)
        return self._kept[index]
