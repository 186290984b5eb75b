"""Taking up an adapter that was exported before, in PEFT's format: the way back from ``trainers.engine.export``."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from trainers.engine.checkpoint import fill
from trainers.engine.engine import Engine
from trainers.engine.lora import Adapter, LoraConfig, is_adaptable, is_attention
from trainers.errors import RunError

_PREFIX = "base_model.model."


def import_adapter(engine: Engine, name: str, folder: Path) -> Adapter:
    """A new adapter of the engine with the weights of a PEFT folder; its optimizer starts afresh.

    Raises ``RunError("storage", …)`` for a folder that is incomplete, of another method than LoRA, or of another model.
    """
    try:
        settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "adapter_model.safetensors")
        if settings["peft_type"] != "LORA" or settings.get("use_dora"):
            raise ValueError("only plain LoRA adapters are read")
        config = LoraConfig(
            rank=settings["r"],
            alpha=settings["lora_alpha"],
            rslora=bool(settings.get("use_rslora")),
            **_targets(engine, weights, settings["target_modules"]),
        )
        adapter = engine.add_adapter(name, config)
        try:
            _fill(adapter, weights)
        except (ValueError, KeyError):
            engine.remove_adapter(name)
            raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunError(
            "storage",
            f"The adapter {folder.name} cannot be loaded: {error}.",
            "Check that it belongs to this base model and that its folder is complete.",
        ) from error
    return adapter


def _targets(engine: Engine, weights: dict[str, torch.Tensor], named: object) -> dict[str, bool]:
    """Which parts of the model the adapter's own tensors belong to; ``named``: layers its configuration names."""
    output = engine.output.group.names[0]
    found = {key.removeprefix(_PREFIX).partition(".lora_")[0] for key in weights}
    if isinstance(named, list) and {name.rpartition(".")[2] for name in found} != set(named):
        raise ValueError("its layers are not those that its configuration names")
    return {
        "attention": any(is_attention(name) for name in found - {output}),
        "mlp": any(is_adaptable(name) and not is_attention(name) for name in found - {output}),
        "unembedding": output in found,
    }


def _fill(adapter: Adapter, weights: dict[str, torch.Tensor]) -> None:
    given = {key.removeprefix(_PREFIX).removesuffix(".weight"): value for key, value in weights.items()}
    places = adapter.named(adapter.values)
    if given.keys() != places.keys():
        odd = sorted(given.keys() ^ places.keys())
        raise ValueError(f"its layers are not those of the base model (for example {odd[0]})")
    fill(adapter, adapter.values, given)
