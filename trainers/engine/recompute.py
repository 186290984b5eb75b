"""Gradient checkpointing (Chen et al. 2016, arXiv:1604.06174): a layer keeps its input and is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


class Recompute:
    """Whether the decoder layers of a model are computed again in the backward pass: set ``on``."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
        self.on = False

    @contextmanager
    def during(self, train: bool) -> Iterator[None]:
        """The passes inside the block recompute, if ``on`` and ``train``."""
        layers = self.layers if self.on and train else []
        for layer in layers:
            layer.forward = _recomputed(layer)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward


def _recomputed(layer: nn.Module) -> Any:
    forward = type(layer).forward

    def again(*arguments: Any, **options: Any) -> Any:
        return checkpoint(forward, layer, *arguments, use_reentrant=False, preserve_rng_state=False, **options)

    return again
