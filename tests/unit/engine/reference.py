"""The plain way: one sequence at a time through transformers' own model, adapter added into the weights by autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from trainers.engine.batch import Datum
from trainers.engine.engine import Engine


class PlainModel:
    def __init__(self, engine: Engine, adapter: str | None) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(engine.path, dtype=torch.float64).eval().requires_grad_(False)
        for module in self.model.modules():
            if isinstance(module, LlamaRMSNorm):  # transformers' own rounds to float32
                module.forward = _exact_norm.__get__(module)
        self.factors: dict[str, tuple[Tensor, Tensor]] = {}
        self.scale = 0.0
        if adapter is not None:
            state = engine.adapters[adapter]
            self.scale = state.config.alpha / state.config.rank
            self.factors = {
                name: (down.detach().double().requires_grad_(), up.detach().double().requires_grad_())
                for name, (down, up) in state.factors.items()
            }

    def logits(self, tokens: Sequence[int]) -> Tensor:
        weights = {
            f"{name}.weight": self.model.get_submodule(name).weight + self.scale * up @ down
            for name, (down, up) in self.factors.items()
        }
        arguments = {"input_ids": torch.tensor([list(tokens)]), "use_cache": False}
        return torch.func.functional_call(self.model, weights, (), arguments, tie_weights=False).logits[0]

    def logprobs(self, datum: Datum, temperature: float = 1.0) -> Tensor:
        scores = (self.logits(datum.tokens) / temperature).log_softmax(-1)[-len(datum.targets) :]
        return scores.gather(1, torch.tensor(list(datum.targets))[:, None])[:, 0]

    def gradient(self) -> Tensor:
        """In the order of the adapter's flat buffer."""
        grads = []
        for down, up in self.factors.values():
            for factor in (down, up):
                grads.append((torch.zeros_like(factor) if factor.grad is None else factor.grad).flatten())
        return torch.cat(grads)


def _exact_norm(self: LlamaRMSNorm, x: Tensor) -> Tensor:
    return self.weight * x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
