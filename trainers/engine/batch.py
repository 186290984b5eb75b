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
    """

    tokens: Sequence[int]
    targets: Sequence[int]
    arrays: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < len(self.targets) <= len(self.tokens):
            raise ValueError(f"{len(self.targets)} targets for {len(self.tokens)} tokens: there must be 1 to as many")
        for name, values in self.arrays.items():
            if len(values) != len(self.targets):
                raise ValueError(f"{name!r} has {len(values)} values for {len(self.targets)} targets")


@dataclass(frozen=True)
class StepOutput:
    """``logprobs[i]``: float tensor (M) of datum i. ``loss``: the sum. ``sums``: the loss's figures, summed.

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
    """Datums laid into one row: unique scored positions (U), and for each of the N targets which of them it reads."""

    layout: Layout
    positions: Tensor
    rows: Tensor
    targets: Tensor
    bounds: list[int]
    arrays: dict[str, Tensor]

    @classmethod
    def of(cls, data: Sequence[Datum], dtype: torch.dtype, device: torch.device) -> MicroBatch:
        """Arrays that only some datums have are refused (``ValueError``)."""
        layout = lay_out([datum.tokens for datum in data])
        scored = np.concatenate(
            [place[len(place) - len(datum.targets) :] for place, datum in zip(layout.places, data, strict=True)]
        )
        unique, rows = np.unique(scored, return_inverse=True)
        names = sorted({name for datum in data for name in datum.arrays})
        for index, datum in enumerate(data):
            for name in names:
                if name not in datum.arrays:
                    raise ValueError(f"datum {index} has no {name!r}, which others of the batch have")
        return cls(
            layout=layout,
            positions=torch.from_numpy(unique).to(device),
            rows=torch.from_numpy(rows).to(device),
            targets=torch.tensor([t for datum in data for t in datum.targets], dtype=torch.long, device=device),
            bounds=np.cumsum([0, *(len(datum.targets) for datum in data)]).tolist(),
            arrays={
                name: torch.tensor([v for datum in data for v in datum.arrays[name]], dtype=dtype, device=device)
                for name in names
            },
        )
