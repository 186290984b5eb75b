"""Losses and gradients of many requests in common passes through the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainers.engine.attention import TreeAttention
from trainers.engine.batch import Datum, MicroBatch, StepOutput, arrays_of
from trainers.engine.failures import named_memory_errors, not_finite
from trainers.engine.lora import Adapter
from trainers.engine.packing import split_by_tokens
from trainers.engine.pulse import Pulse
from trainers.engine.token_logprobs import token_logprobs
from trainers.losses import LOSSES, Loss, LossInputs

if TYPE_CHECKING:
    from trainers.engine.engine import Engine


@dataclass(frozen=True)
class TrainRequest:
    """A batch for one adapter (None: the base model), its loss (by name or as it is) and the loss's settings."""

    adapter: str | None
    batch: Sequence[Datum]
    loss: str | Loss = "cross_entropy"
    config: Mapping[str, float] | None = None
    temperature: float = 1.0


@dataclass
class _Tally:
    """What a request has come to so far."""

    logprobs: list[Tensor]
    total: float = 0.0
    entropy: float = 0.0
    passed: int = 0
    sums: dict[str, float] = field(default_factory=dict)


class Pass:
    """The passes of one call. The adapters of all requests sit on the same weights."""

    def __init__(
        self, engine: Engine, requests: Sequence[TrainRequest], adapters: Sequence[Adapter | None], *, train: bool
    ) -> None:
        self.engine, self.requests, self.train = engine, requests, train
        self.work_dtype = torch.float64 if engine.dtype == torch.float64 else torch.float32
        self.losses = [LOSSES[one.loss] if isinstance(one.loss, str) else one.loss for one in requests]
        # Number of the request, place in its batch, datum.
        self.items = [
            (index, place, datum) for index, one in enumerate(requests) for place, datum in enumerate(one.batch)
        ]
        # Only sequences of one adapter at one temperature may share tokens.
        keys = [(id(adapter), one.temperature) for one, adapter in zip(requests, adapters, strict=True)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.owner_of = [numbers[key] for key in keys]
        self.adapter_of = dict(zip(self.owner_of, adapters, strict=True))
        self.temperature_of = {numbers[key]: key[1] for key in keys}
        self.tallies = [_Tally([torch.empty(0)] * len(one.batch)) for one in requests]
        for request, loss in zip(requests, self.losses, strict=True):
            _check(request, loss)

    def run(self) -> list[StepOutput]:
        """Forward and, when training, backward; one output per request."""
        engine = self.engine
        sequences = [datum.tokens for _, _, datum in self.items]
        owners = [self.owner_of[index] for index, _, _ in self.items]
        parts = split_by_tokens(sequences, engine.tokens_per_pass, owners)
        batches = [
            MicroBatch.of([self.items[i][2] for i in part], engine.device, [owners[i] for i in part]) for part in parts
        ]
        engine.pulse.begin(sum(len(batch.layout) for batch in batches) * (3 if self.train else 1))
        for part, batch in zip(parts, batches, strict=True):
            with named_memory_errors():
                self._one(part, batch)
        return [
            StepOutput(
                tally.logprobs,
                tally.total,
                tally.sums,
                tally.entropy,
                sum(len(datum.targets) for datum in request.batch),
                tally.passed,
            )
            for request, tally in zip(self.requests, self.tallies, strict=True)
        ]

    def _one(self, part: list[int], batch: MicroBatch) -> None:
        engine, layout = self.engine, batch.layout
        engine.route.divide([(self.adapter_of[owner], start, stop) for owner, start, stop in layout.owners])
        pattern = Counting(
            TreeAttention(layout, engine.dtype, engine.device), engine.pulse, len(layout) / engine.layers
        )
        with engine.route.attending(pattern):
            hidden = engine.hidden(
                torch.from_numpy(layout.tokens).to(engine.device), torch.from_numpy(layout.positions).to(engine.device)
            )
            scored, entropy = self._scored(hidden, batch)
            total = self._losses(part, batch, scored, entropy)
            if self.train:
                # Inside the block: a layer that is computed again for its gradient needs the pattern too.
                total.backward()

    def _scored(self, hidden: Tensor, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the batch's targets, and the entropy at its scored positions."""
        engine = self.engine
        edges = torch.tensor([start for _, start, _ in batch.layout.owners], device=engine.device)
        owner_at = torch.searchsorted(edges, batch.positions, right=True) - 1
        owners = [batch.layout.owners[place][0] for place in owner_at.tolist()]
        temperatures = [self.temperature_of[owner] for owner in owners]
        even = len(set(temperatures)) == 1
        temperature: float | Tensor = (
            temperatures[0] if even else torch.tensor(temperatures, dtype=torch.float32, device=engine.device)[:, None]
        )
        return token_logprobs(
            hidden[batch.positions],
            engine.unembedding,
            batch.rows,
            batch.targets,
            temperature=temperature,
            unembed=engine.unembed_for([self.adapter_of[owner] for owner in owners]),
        )

    def _losses(self, part: list[int], batch: MicroBatch, scored: Tensor, entropy: Tensor) -> Tensor:
        """Sum of the losses of all requests in this pass; everything else goes into their tallies."""
        pieces, engine = scored.split(batch.counts), self.engine
        by_request: dict[int, list[int]] = {}
        for place, item in enumerate(part):
            by_request.setdefault(self.items[item][0], []).append(place)
        totals = []
        for index, places in by_request.items():
            data = [self.items[part[place]][2] for place in places]
            mine = scored if len(places) == len(part) else torch.cat([pieces[place] for place in places])
            bounds = list(accumulate((batch.counts[place] for place in places), initial=0))
            inputs = LossInputs(mine, arrays_of(data, self.work_dtype, engine.device), bounds)
            output = self.losses[index](inputs, self.requests[index].config)
            totals.append(output.total)
            self._tally(index, output.total, output.sums)
            for place in places:
                self._keep(part[place], pieces[place], batch, place, entropy)
        return totals[0] if len(totals) == 1 else torch.stack([total.reshape(()) for total in totals]).sum()

    def _tally(self, index: int, total: Tensor, sums: Mapping[str, Tensor]) -> None:
        value = float(total.detach())
        if value != value or abs(value) == float("inf"):
            raise not_finite()
        tally = self.tallies[index]
        tally.total += value
        for name, figure in sums.items():
            tally.sums[name] = tally.sums.get(name, 0.0) + float(figure)

    def _keep(self, item: int, piece: Tensor, batch: MicroBatch, place: int, entropy: Tensor) -> None:
        index, number, datum = self.items[item]
        tally = self.tallies[index]
        tally.passed += batch.layout.fresh[place]
        tally.logprobs[number] = piece.detach().view(datum.shape)
        rows = batch.rows[batch.bounds[place] : batch.bounds[place + 1] : datum.width]
        tally.entropy += float(entropy[rows].sum())


def _check(request: TrainRequest, loss: Loss) -> None:
    if not request.batch:
        raise ValueError("a batch must have at least one datum")
    names = sorted({name for datum in request.batch for name in datum.arrays})
    for index, datum in enumerate(request.batch):
        for name in names:
            if name not in datum.arrays:
                raise ValueError(f"datum {index} has no {name!r}, which others of the batch have")
        if datum.width > 1 and loss.name != "cross_entropy":
            raise ValueError(
                f"datum {index} has {datum.width} targets for each position, and the loss {loss.name} takes one; "
                "use cross_entropy"
            )


class Counting:
    """A pattern that also tells the pulse how far the forward and the backward pass have come."""

    def __init__(self, pattern: TreeAttention, pulse: Pulse, units: float) -> None:
        self.pattern, self.pulse, self.units = pattern, pulse, units

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
    ) -> Tensor:
        self.pulse.add(self.units)
        if query.requires_grad:
            query.register_hook(self._backward)
        return self.pattern(layer, query, key, value, scaling, window)

    def _backward(self, gradient: Tensor) -> None:
        self.pulse.add(2 * self.units)
