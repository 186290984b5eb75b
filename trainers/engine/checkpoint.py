"""Saving an adapter (or a full copy of the weights) whole: weights, optimizer, and the state of its random draws.

Layout of a state folder: ``adapter.safetensors`` and ``optimizer.safetensors`` (float32, tensors by name) and
``state.json``. A run that goes on from it does what the run that never stopped would have done, bit for bit on CPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainers.engine.engine import Engine, Trainable
from trainers.engine.full import FullConfig, FullWeights
from trainers.engine.lora import LoraConfig
from trainers.errors import RunError

_VERSION = 1

Writer = Callable[[Path], None]
"""Writes what it holds into a folder; from any thread, at any later time."""


def save_state(engine: Engine, adapter: str, folder: Path, extra: dict[str, Any] | None = None) -> None:
    """Write the state of an adapter; ``extra`` (JSON) is the caller's own and comes back from :func:`load_state`.

    The accumulated gradient is not part of it: save between optimizer steps. Raises ``ValueError`` for a frozen copy.
    """
    snapshot_state(engine, adapter, extra)(folder)


def snapshot_state(engine: Engine, adapter: str, extra: dict[str, Any] | None = None) -> Writer:
    """The state of this moment, copied to the CPU's memory; the writer puts it into a folder while training goes on.

    Raises as :func:`save_state`.
    """
    state = engine.adapters[adapter]
    if state.frozen:
        raise ValueError(f"{adapter} is a frozen copy without an optimizer; save the adapter it was taken from")
    values = copied(state, state.values)
    moments = {f"first.{name}": value for name, value in copied(state, state.first_moment).items()}
    moments |= {f"second.{name}": value for name, value in copied(state, state.second_moment).items()}
    record = {
        "version": _VERSION,
        "kind": "full" if isinstance(state, FullWeights) else "lora",
        "config": asdict(state.config),
        "steps": state.steps,
        "draws": state.draws,
        "extra": extra or {},
    }

    def write(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(values, folder / "adapter.safetensors")
        save_file(moments, folder / "optimizer.safetensors")
        (folder / "state.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    return write


def load_state(engine: Engine, adapter: str, folder: Path, *, optimizer: bool = True) -> dict[str, Any]:
    """Make (or overwrite) the adapter from a state folder; returns ``extra``.

    ``optimizer`` False takes the weights alone and starts a fresh optimizer. Raises ``RunError("storage", …)`` for a
    folder that is incomplete or belongs to another model.
    """
    try:
        record = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        full = record.get("kind") == "full"
        weights = load_file(folder / "adapter.safetensors")
        moments = load_file(folder / "optimizer.safetensors") if optimizer else {}
        engine.adapters.pop(adapter, None)
        state: Trainable = (
            engine.add_full(adapter, FullConfig(**record["config"]))
            if full
            else engine.add_adapter(adapter, LoraConfig(**record["config"]))
        )
        fill(state, state.values, weights)
        if optimizer:
            fill(state, state.first_moment, {k.removeprefix("first."): v for k, v in moments.items()})
            fill(state, state.second_moment, {k.removeprefix("second."): v for k, v in moments.items()})
            state.steps, state.draws = record["steps"], record["draws"]
        state.refresh()
        return dict(record["extra"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise RunError(
            "storage",
            f"The checkpoint {folder.name} cannot be loaded: {error}.",
            "Choose another checkpoint, or start from the base model.",
        ) from error


def copied(adapter: Trainable, buffer: Tensor) -> dict[str, Tensor]:
    """The tensors of one of its flat buffers by name, in the CPU's memory."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in adapter.named(buffer).items()}


def fill(adapter: Trainable, buffer: Tensor, values: Mapping[str, Tensor]) -> None:
    """Write tensors by name into one of its flat buffers.

    Raises ``KeyError`` for one that is missing, ``ValueError`` for one of another shape.
    """
    with torch.no_grad():
        for name, place in adapter.named(buffer).items():
            if values[name].shape != place.shape:
                raise ValueError(f"{name} has the shape {tuple(values[name].shape)}, not {tuple(place.shape)}")
            place.copy_(values[name])
