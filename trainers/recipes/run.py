"""Running one task spec on one device: load the model, make the adapter, run the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trainers.engine.base_models import model_manifest
from trainers.engine.engine import Engine
from trainers.engine.lora import LoraConfig
from trainers.recipes.context import Row, RunContext, Scorer
from trainers.recipes.grpo import GrpoRun
from trainers.recipes.sft import SftRun
from trainers.spec import TaskSpec

ADAPTER = "policy"


def run_recipe(
    ctx: RunContext,
    *,
    model_path: Path,
    train_rows: Sequence[Row],
    eval_rows: Sequence[Row],
    scorer: Scorer | None,
    threads: int,
    device: str = "cpu",
) -> dict[str, Any]:
    """Run the task of ``ctx.spec`` to its end and return the result for ``state succeeded``.

    Everything that happens goes through ``ctx``. The caller writes the ``state`` events. ``scorer`` may be None only
    for recipes without a reward. Raises ``RunError`` for what the user can act on, ``RunStopped`` after a stop.
    """
    spec = ctx.spec
    ctx.emit("progress", step=0, total_steps=spec.hyperparameters.steps or 0, phase="loading", fraction=0.0, eta_s=None)
    engine = Engine.load(model_path, dtype=getattr(torch, spec.model.dtype), threads=threads, device=device)
    adapter = engine.add_adapter(ADAPTER, _lora(spec))
    ctx.emit(
        "log", level="info", text=_loaded(engine, sum(part.numel() for part in adapter.named(adapter.values).values()))
    )
    if spec.recipe == "sft":
        return SftRun(ctx, engine, ADAPTER, train_rows=train_rows, eval_rows=eval_rows).run()
    if scorer is None:
        raise ValueError("the grpo recipe needs a scorer")
    return GrpoRun(ctx, engine, ADAPTER, train_rows=train_rows, eval_rows=eval_rows, scorer=scorer).run()


def _lora(spec: TaskSpec) -> LoraConfig:
    lora = spec.model.adapter
    return LoraConfig(
        rank=lora.rank,
        alpha=lora.alpha,
        attention=lora.attention,
        mlp=lora.mlp,
        unembedding=lora.unembedding,
        seed=spec.seed % 2**63,
    )


def _loaded(engine: Engine, trainable: int) -> str:
    origin = model_manifest(engine.path).get("origin")
    total = sum(parameter.numel() for parameter in engine.model.parameters())
    number = str(engine.dtype).removeprefix("torch.")
    text = f"Base model loaded: {total:,} parameters in {number} on {engine.device}, {engine.threads} threads; "
    return text + f"{trainable:,} trained in the adapter." + (f" Origin: {origin}." if origin else "")
