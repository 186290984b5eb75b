"""How much of the device's arithmetic a step used (MFU: model FLOP utilisation, Chowdhery et al., arXiv:2204.02311).

With N parameters of the network without its embeddings, E of the output layer and L of the adapter, a token costs
2·(N + L) operations forward, and 2·E more where a loss or the sampler reads its distribution. Training adds the way
back through the activations, 2·N and 2·E, and 4·L for the adapter's own gradient; the base needs 2·N and 2·E more only
where all weights are trained. Left out
is attention itself (4·d·context per layer and token), which is small for short contexts. Tokens are those that went
through the network: a shared prompt counts once. The peak is measured, not read from a data sheet: the best of several
square matrix products in the training's number format on the leased threads.
"""

from __future__ import annotations

import time
from functools import lru_cache

import torch

from trainers.engine.batch import StepOutput
from trainers.engine.engine import Engine
from trainers.engine.full import FullWeights

_SIZE = {"cpu": 512, "cuda": 4096}
_TRIES = 5


class FlopCounter:
    """Operations of one adapter's calls on an engine, added up."""

    def __init__(self, engine: Engine, adapter: str) -> None:
        apart = {id(engine.model.get_input_embeddings().weight), id(engine.output.weight)}  # type: ignore[operator]
        self._body = sum(part.numel() for part in engine.model.parameters() if id(part) not in apart)
        self._output = int(engine.output.weight.numel())
        trained = engine.adapters[adapter]
        self._full = isinstance(trained, FullWeights)
        self._adapter = 0 if isinstance(trained, FullWeights) else int(trained.values.numel())
        self.total = 0.0

    def trained(self, output: StepOutput) -> None:
        """A forward and a backward pass."""
        whole = 6 if self._full else 4
        self.total += output.passed * (whole * self._body + 6 * self._adapter) + whole * output.tokens * self._output

    def passed(self, output: StepOutput) -> None:
        """A forward pass that scores."""
        self.total += 2 * output.passed * (self._body + self._adapter) + 2 * output.tokens * self._output

    def sampled(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Completions were sampled; ``prompt_tokens`` counts each prompt once."""
        self.total += 2 * (prompt_tokens + completion_tokens) * (self._body + self._adapter)
        self.total += 2 * completion_tokens * self._output

    def take(self) -> float:
        """The operations since the last call."""
        total, self.total = self.total, 0.0
        return total


@lru_cache(maxsize=8)
def peak_flops(device: str, dtype: torch.dtype, threads: int) -> float:
    """Operations per second of the best of several matrix products on this device, measured once per process."""
    size = _SIZE.get(device, _SIZE["cpu"])
    left, right = (torch.randn(size, size, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    left, right = left.to(device, dtype), right.to(device, dtype)
    best = float("inf")
    for _ in range(_TRIES):
        begun = time.perf_counter()
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return float(2 * size**3 / best)
