from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainers.engine.engine import Engine
from trainers.engine.lora import LoraConfig
from trainers.engine.tiny import tiny_llama


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("models") / "tiny-random-llama")


@pytest.fixture
def make_engine(tiny_folder: Path) -> Callable[..., Engine]:
    """An engine on the tiny model, with an adapter ``a`` whose B is not zero, so that it changes what comes out."""

    def make(dtype: torch.dtype = torch.float32, **lora: object) -> Engine:
        engine = Engine.load(tiny_folder, dtype=dtype, threads=1)
        adapter = engine.add_adapter("a", LoraConfig(rank=4, alpha=8.0, **lora))  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            adapter.values.add_(0.1 * torch.randn(adapter.values.shape, generator=generator))
        return engine

    return make
