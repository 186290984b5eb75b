"""What goes into and comes out of the engine's training calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from trainers.engine.packing import Layout, lay_out


@dataclass(frozen=True)
class Datum:
    """One sequence: the ``tokens`` the model reads (N) and the ``targets`` it is scored on, the last M ≤ N positions.

    ``targets[i]`` is scored at position N - M + i, so for a prompt and a completion: tokens = prompt + completion
    without its last token, targets = completion. ``arrays`` holds M numbers per name, as the loss asks for them.
    Every position may have K targets instead of one (M lists of K, all as long): arrays are then M lists of K too.
    """

    tokens: Sequence[int]
    targets: Sequence[int] | Sequence[Sequence[int]]
    arrays: Mapping[str, Sequence[float] | Sequence[Sequence[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < len(self.targets) <= len(self.tokens):
            raise ValueError(f"{len(self.targets)} targets for {len(self.tokens)} tokens: there must be 1 to as many")
        self._check_width("targets", self.targets)
        for name, values in self.arrays.items():
            if len(values) != len(self.targets):
                raise ValueError(f"{name!r} has {len(values)} values for {len(self.targets)} targets")
            self._check_width(name, values)

    def _check_width(self, name: str, rows: Sequence[object]) -> None:
        wide = isinstance(self.targets[0], Sequence)
        for row in rows:
            if isinstance(row, Sequence) != wide or (isinstance(row, Sequence) and len(row) != self.width):
                raise ValueError(f"{name!r} must have the shape of the targets, with {self.width} for each position")

    @property
    def width(self) -> int:
        """K, the targets of each position."""
        first = self.targets[0]
        return len(first) if isinstance(first, Sequence) else 1

    @property
    def shape(self) -> tuple[int, ...]:
        """(M) or (M, K)."""
        return (len(self.targets), self.width) if isinstance(self.targets[0], Sequence) else (len(self.targets),)

    def flat(self, name: str | None = None) -> list[float]:
        """The targets, or the array of this name, as M·K numbers."""
        values = self.targets if name is None else self.arrays[name]
        return [v for row in values for v in (row if isinstance(row, Sequence) else (row,))]


@dataclass(frozen=True)
class StepOutput:
    """``logprobs[i]``: float tensor (M) or (M, K) of datum i. ``loss``: the sum. ``sums``: the loss's figures, summed.

    ``entropy``: sum over all scored tokens of the entropy of the model's distribution. ``tokens``: scored tokens.
    ``passed``: tokens that really went through the network.
    """

    logprobs: list[Tensor]
    loss: float
    sums: dict[str, float]
    entropy: float
    tokens: int
    passed: int


@dataclass(frozen=True)
class MicroBatch:
    """Datums laid into one row: unique scored positions (U), and for each of the N targets which of them it reads.

    ``counts[i]``: targets of datum i, which are ``bounds[i]`` up to ``bounds[i + 1]`` of the N.
    """

    layout: Layout
    positions: Tensor
    rows: Tensor
    targets: Tensor
    counts: list[int]
    bounds: list[int]

    @classmethod
    def of(cls, data: Sequence[Datum], device: torch.device, owners: Sequence[int] | None = None) -> MicroBatch:
        """Datums of different ``owners`` share nothing."""
        layout = lay_out([datum.tokens for datum in data], owners)
        scored = np.concatenate(
            [
                np.repeat(place[len(place) - len(datum.targets) :], datum.width)
                for place, datum in zip(layout.places, data, strict=True)
            ]
        )
        unique, rows = np.unique(scored, return_inverse=True)
        counts = [len(datum.targets) * datum.width for datum in data]
        return cls(
            layout=layout,
            positions=torch.from_numpy(unique).to(device),
            rows=torch.from_numpy(rows).to(device),
            targets=torch.tensor([t for datum in data for t in datum.flat()], dtype=torch.long, device=device),
            counts=counts,
            bounds=np.cumsum([0, *counts]).tolist(),
        )


def arrays_of(data: Sequence[Datum], dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """The arrays of the datums (all have the same) laid end to end: one tensor (N) by name."""
    return {
        name: torch.tensor([v for datum in data for v in datum.flat(name)], dtype=dtype, device=device)
        for name in sorted(data[0].arrays)
    }
