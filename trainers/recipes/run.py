"""Running one task spec on one device: load the model, make the adapter, run the recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from trainers.engine.base_models import model_manifest
from trainers.engine.engine import Engine
from trainers.engine.full import FullConfig
from trainers.engine.lora import LoraConfig
from trainers.recipes.best_of_n import BestOfNRun
from trainers.recipes.context import Row, RunContext, Scorer
from trainers.recipes.distill import DistillRun, load_teacher
from trainers.recipes.dpo import DpoRun
from trainers.recipes.grpo import GrpoRun
from trainers.recipes.interval import USUAL_MTBF_S
from trainers.recipes.measuring import EvaluateRun
from trainers.recipes.ppo_critic import PpoCriticRun
from trainers.recipes.setup import Setup
from trainers.recipes.sft import SftRun
from trainers.recipes.starting import start_adapter
from trainers.spec import RECIPES, TaskSpec

ADAPTER = "policy"

RUNS: dict[str, Callable[[Setup], Any]] = {
    "sft": SftRun,
    "grpo": GrpoRun,
    "ppo_critic": PpoCriticRun,
    "dpo": DpoRun,
    "distill": DistillRun,
    "best_of_n": BestOfNRun,
    "evaluate": EvaluateRun,
}


def run_recipe(
    ctx: RunContext,
    *,
    model_path: Path,
    train_rows: Sequence[Row],
    eval_rows: Sequence[Row],
    scorer: Scorer | None,
    threads: int,
    device: str = "cpu",
    start_from: Path | None = None,
    resume_from: Path | None = None,
    teacher_path: Path | None = None,
    teacher_adapter: Path | None = None,
    mtbf_s: float = USUAL_MTBF_S,
) -> dict[str, Any]:
    """Run the task of ``ctx.spec`` to its end and return the result for ``state succeeded``.

    Everything that happens goes through ``ctx``. The caller writes the ``state`` events. ``scorer`` may be None only
    for recipes without a reward. ``start_from`` is the folder of an adapter (PEFT) that training goes on from;
    ``resume_from`` the ``state`` folder of a checkpoint of this very task, from which the run goes on as if it had
    never stopped. ``teacher_path`` (None: the student's base model) and ``teacher_adapter`` are for ``distill``.
    ``mtbf_s``: seconds until a machine like this one fails, on average; checkpoints are timed by it.
    Raises ``RunError`` for what the user can act on, ``RunStopped`` after a stop, ``RunPaused`` after a pause.
    """
    spec = ctx.spec
    if scorer is None and RECIPES[spec.recipe].reward == "needed" and spec.environment.kind == "single_turn":
        raise ValueError(f"the {spec.recipe} recipe needs a scorer")
    ctx.emit("progress", step=0, total_steps=spec.hyperparameters.steps or 0, phase="loading", fraction=0.0, eta_s=None)
    engine = Engine.load(model_path, dtype=getattr(torch, spec.model.dtype), threads=threads, device=device)
    reference = start_adapter(ctx, engine, ADAPTER, _trained(spec), start_from)
    ctx.emit("log", level="info", text=_loaded(engine, engine.adapters[ADAPTER].values.numel()))
    setup = Setup(
        ctx=ctx,
        engine=engine,
        adapter=ADAPTER,
        train_rows=train_rows,
        eval_rows=eval_rows,
        scorer=scorer,
        reference=reference,
        teacher=load_teacher(ctx, engine, teacher_path, teacher_adapter) if spec.recipe == "distill" else None,
        resume=resume_from,
        mtbf_s=mtbf_s,
    )
    result: dict[str, Any] = RUNS[spec.recipe](setup).run()
    return result


def _trained(spec: TaskSpec) -> LoraConfig | FullConfig:
    lora = spec.model.adapter
    if lora.kind == "full":
        return FullConfig(seed=spec.seed % 2**63)
    return LoraConfig(
        rank=lora.rank,
        alpha=lora.alpha,
        attention=lora.attention,
        mlp=lora.mlp,
        unembedding=lora.unembedding,
        seed=spec.seed % 2**63,
        rslora=lora.rslora,
    )


def _loaded(engine: Engine, trainable: int) -> str:
    origin = model_manifest(engine.path).get("origin")
    total = sum(parameter.numel() for parameter in engine.model.parameters())
    number = str(engine.dtype).removeprefix("torch.")
    text = f"Base model loaded: {total:,} parameters in {number} on {engine.device}, {engine.threads} threads; "
    return text + f"{trainable:,} are trained." + (f" Origin: {origin}." if origin else "")
