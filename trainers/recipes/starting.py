"""What training starts from: a new adapter that changes nothing yet, or the adapter of an earlier model."""

from __future__ import annotations

from pathlib import Path

from trainers.engine.adopt import import_adapter
from trainers.engine.engine import Engine
from trainers.engine.full import FullConfig
from trainers.engine.lora import LoraConfig
from trainers.recipes.context import RunContext

REFERENCE = "reference"


def start_adapter(
    ctx: RunContext, engine: Engine, name: str, config: LoraConfig | FullConfig, start_from: Path | None
) -> str | None:
    """Make the adapter to be trained; returns the adapter to compare with (None: the bare base model).

    With a :class:`FullConfig` it is a copy of all weights.
    With ``start_from`` the adapter has the shape and weights of that PEFT folder, whatever ``config`` says, and a
    frozen copy of it is the reference. Raises ``RunError("storage", …)`` for a folder that does not fit.
    """
    if isinstance(config, FullConfig):
        engine.add_full(name, config)
        return None
    if start_from is None:
        engine.add_adapter(name, config)
        return None
    adapter = import_adapter(engine, name, start_from)
    engine.snapshot(name, REFERENCE)
    found = adapter.config
    text = f"Training goes on from an earlier adapter of rank {found.rank} and alpha {found.alpha:g}."
    if (found.rank, found.alpha) != (config.rank, config.alpha):
        text += f" The task's own rank {config.rank} and alpha {config.alpha:g} are not used."
    ctx.emit("log", level="info", text=text)
    return REFERENCE
