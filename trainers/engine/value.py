"""A value network on a base model: an adapter of its own and a linear head on the last hidden state.

The base's weights are shared with the policy; only the adapter and the head (d weights and a bias) are the critic's. At
first the head is zero, so every value is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainers.engine.batch import Datum, MicroBatch, arrays_of
from trainers.engine.checkpoint import Writer, load_state, snapshot_state
from trainers.engine.engine import Engine
from trainers.engine.failures import named_memory_errors
from trainers.engine.lora import LoraConfig
from trainers.engine.optimizer import AdamParams, adamw_step
from trainers.engine.packing import split_by_tokens

HEAD = "head.safetensors"


class _Head:
    """The linear head as an optimizer's buffers: d weights, then the bias."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.steps = 0
        self.values, self.gradient, self.first_moment, self.second_moment = (
            torch.zeros(width + 1, device=device) for _ in range(4)
        )
        self.parameter = nn.Parameter(self.values)
        self.parameter.grad = self.gradient

    def refresh(self) -> None:
        """Nothing to do after a step: the parameter is a view of the values."""


class ValueModel:
    """Values of the state before each target of a datum: what reward is still to come."""

    def __init__(self, engine: Engine, name: str, config: LoraConfig) -> None:
        self.engine, self.name = engine, name
        engine.add_adapter(name, config)
        self.head = _Head(int(engine.config.hidden_size), engine.device)

    def values(self, data: Sequence[Datum]) -> list[list[float]]:
        """One value per target of each datum."""
        result: list[list[float]] = [[] for _ in data]
        with torch.no_grad(), named_memory_errors():
            for part, micro in self._micro_batches(data):
                values = self._forward(micro, train=False)
                for index, piece in zip(part, values.split(micro.counts), strict=True):
                    result[index] = piece.tolist()
        return result

    def train(self, data: Sequence[Datum], params: AdamParams, clip: float) -> dict[str, float]:
        """One optimizer step on the mean over tokens of ½·max((v - R)², (v_c - R)²).

        v_c = v_old + clamp(v - v_old, ±clip). Each datum's arrays hold ``returns`` R, ``old_values`` v_old and ``mask``
        (0: the token does not count). ``clip`` 0 leaves the second term out. Returns ``value_loss`` and the
        ``explained_variance`` of the values before the step. Source of the clipping: the PPO code of Dhariwal et al.
        2017, as in arXiv:2005.12729, §2.
        """
        count = max(1.0, sum(sum(datum.flat("mask")) for datum in data))
        total = 0.0
        with named_memory_errors():
            for part, micro in self._micro_batches(data):
                values = self._forward(micro, train=True)
                arrays = arrays_of([data[i] for i in part], torch.float32, self.engine.device)
                terms = (values - arrays["returns"]).square()
                if clip:
                    old = arrays["old_values"]
                    clipped = old + (values - old).clamp(-clip, clip)
                    terms = torch.maximum(terms, (clipped - arrays["returns"]).square())
                loss = 0.5 * (terms * arrays["mask"]).sum() / count
                loss.backward()
                total += float(loss.detach())
        adamw_step(self.engine.adapters[self.name], params)
        adamw_step(self.head, params)
        return {"value_loss": total, "explained_variance": _explained(data)}

    def snapshot(self) -> Writer:
        """Adapter, head and optimizer of this moment; the writer puts them into a folder."""
        adapter = snapshot_state(self.engine, self.name, {"head_steps": self.head.steps})
        head = {name: getattr(self.head, name).detach().cpu().clone() for name in ("values", *_MOMENTS)}

        def write(folder: Path) -> None:
            adapter(folder)
            save_file(head, folder / HEAD)

        return write

    def load(self, folder: Path) -> None:
        """Read what :meth:`snapshot` wrote. Raises ``RunError("storage", …)`` for an adapter that does not fit."""
        extra = load_state(self.engine, self.name, folder)
        self.head.steps = int(extra["head_steps"])
        stored = load_file(folder / HEAD)
        with torch.no_grad():
            for name in ("values", *_MOMENTS):
                getattr(self.head, name).copy_(stored[name])

    def _micro_batches(self, data: Sequence[Datum]) -> list[tuple[list[int], MicroBatch]]:
        parts = split_by_tokens([datum.tokens for datum in data], self.engine.tokens_per_pass)
        return [(part, MicroBatch.of([data[i] for i in part], self.engine.device)) for part in parts]

    def _forward(self, micro: MicroBatch, *, train: bool) -> Tensor:
        hidden = self.engine.read(self.name, micro.layout, train=train)
        values = hidden[micro.positions].float() @ self.head.parameter[:-1] + self.head.parameter[-1]
        return values[micro.rows]


_MOMENTS = ("first_moment", "second_moment")


def _explained(data: Sequence[Datum]) -> float:
    """1 - Var(R - v) / Var(R) over the tokens that count: 1 is perfect, 0 no better than a constant."""
    own = torch.tensor([m for datum in data for m in datum.flat("mask")]) != 0
    returns = torch.tensor([r for datum in data for r in datum.flat("returns")])[own]
    values = torch.tensor([v for datum in data for v in datum.flat("old_values")])[own]
    spread = returns.var(correction=0)
    return float(1 - (returns - values).var(correction=0) / spread) if spread > 1e-12 else 0.0
