"""What an attempt does: fetch its data, prepare its model and its reward, run its recipe.

Imported by the control plane with the driver's class, so torch is imported only when the work begins.
"""

from __future__ import annotations

import importlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from trainers.data.loading import LoadedRows, load_rows, split_rows, without_overlap
from trainers.data.rows import DataRow
from trainers.envs import ENVIRONMENTS
from trainers.errors import RunError
from trainers.recipes.context import RunContext
from trainers.rewards.scorer import Scorer, needs_answer, row_problem
from trainers.runtime.payload import Folder, Launch
from trainers.spec import RECIPES, Data, RewardSpec, TaskSpec
from trainers.storage import Storage, StorageError, StoredFile

logger = logging.getLogger(__name__)

NAMED_ROWS = 20
STATE = "state"  # where a published checkpoint keeps the state of its run
RUN_RECORD = "run.json"  # and what in it says how far the run had come


def run_work(ctx: RunContext, launch: Launch, storage: Storage) -> dict[str, Any]:
    """Run the launch's task to its end; the result of ``state succeeded``. Raises what its parts raise."""
    spec = ctx.spec
    resume_from = fetch_state(ctx, storage, launch.resume_from)
    ctx.emit("progress", step=0, total_steps=spec.hyperparameters.steps, phase="loading", fraction=0.0, eta_s=None)
    train_rows, eval_rows = load_data(ctx, launch, storage)
    run_recipe = _load_torch(launch.threads)
    from trainers.engine.base_models import resolve_base_model

    cache = Path(launch.cache_dir)
    model_path = resolve_base_model(launch.base_model, cache)
    with ExitStack() as closing:
        reward, scorer = _scored(spec), None
        if reward is not None:
            scorer = closing.enter_context(Scorer(reward, secrets=launch.secrets, cache_folder=cache))
            _tell_isolation(ctx, scorer)
        result: dict[str, Any] = run_recipe(
            ctx,
            model_path=model_path,
            train_rows=train_rows,
            eval_rows=eval_rows,
            scorer=scorer,
            threads=launch.threads,
            device="cuda" if launch.device == "gpu" else "cpu",
            start_from=fetch_adapter(ctx, storage, launch.start_from, "start"),
            resume_from=resume_from,
            mtbf_s=launch.mtbf_s,
            teacher_path=resolve_base_model(launch.teacher_model, cache) if launch.teacher_model else None,
            teacher_adapter=fetch_adapter(ctx, storage, launch.teacher_adapter, "teacher"),
        )
        if scorer is not None and (spent := scorer.metrics()):
            ctx.emit("log", level="info", text=_spent_words(spent))
    return result


def fetch_adapter(ctx: RunContext, storage: Storage, folder: Folder | None, name: str) -> Path | None:
    """A stored adapter as a local folder, its hashes checked; the state of a run that may lie beside it is left out."""
    return _fetch(ctx, storage, folder, name, lambda file: "/" not in file)


def fetch_state(ctx: RunContext, storage: Storage, folders: Sequence[Folder]) -> Path | None:
    """The state of a run from the first of these checkpoints that is whole, as a local folder.

    None: from the beginning. A ``resume`` event says which one it is, and which are damaged. Raises ``StorageError``
    when storage cannot be asked.
    """
    if not folders:
        return None
    damaged: list[str] = []
    for number, folder in enumerate(folders):
        name = folder.key.rpartition("/")[2]
        try:
            local = _fetch(ctx, storage, folder, f"resume-{number}", lambda file: file.startswith(f"{STATE}/"))
            assert local is not None
            step = int(json.loads((local / STATE / RUN_RECORD).read_text(encoding="utf-8"))["step"])
        except StorageError as error:
            if error.kind not in ("damaged", "missing"):
                raise
            problem = error.message
        except RunError as error:
            problem = error.message
        except (ValueError, KeyError, TypeError) as error:
            problem = f"it cannot be read ({error})"
        else:
            ctx.emit("resume", step=step, name=name, uri=folder.key, damaged=damaged)
            return local / STATE
        damaged.append(folder.key)
        text = f"Checkpoint {name} cannot be used; the one before it is tried. {problem}"
        ctx.emit("log", level="warning", text=text)
    ctx.emit("resume", step=0, name="", uri="", damaged=damaged)
    return None


def _fetch(
    ctx: RunContext, storage: Storage, folder: Folder | None, name: str, wanted: Callable[[str], bool]
) -> Path | None:
    if folder is None:
        return None
    listed = folder.files if folder.files is not None else storage.read_manifest(folder.key)
    files: list[StoredFile] = [
        {"name": str(file["name"]), "size": int(file["size"]), "sha256": str(file["sha256"])}
        for file in listed
        if wanted(str(file["name"]))
    ]
    if not files:
        raise RunError(
            "storage", f"{folder.key} in storage holds nothing to go on from.", "Choose another checkpoint or model."
        )
    local = ctx.scratch / "fetched" / name
    storage.fetch_folder(folder.key, local, files)
    return local


def load_data(ctx: RunContext, launch: Launch, storage: Storage) -> tuple[list[DataRow], list[DataRow]]:
    """Rows to train on and rows to measure by, which share no prompt. Rows that were left out are in the log."""
    spec = ctx.spec
    loaded = _load(ctx, storage, launch.dataset_key, launch.dataset_file, spec.data)
    wanted = spec.evaluation.prompts
    if spec.recipe == "evaluate" and launch.evaluation_key is None:
        return [], loaded.rows[:wanted]  # nothing is trained, so nothing need be kept apart
    if launch.evaluation_key is None or wanted == 0:
        train, held_out = split_rows(loaded.rows, wanted, spec.seed)
    else:
        name = launch.evaluation_file or "evaluation"
        whole = spec.data.model_copy(update={"limit": None})
        held_out = _load(ctx, storage, launch.evaluation_key, name, whole).rows[:wanted]
        train = without_overlap(loaded.rows, held_out)
    ctx.emit("log", level="info", text=f"{len(train):,} rows to train on, {len(held_out):,} held out to measure by.")
    return train, held_out


def _load(ctx: RunContext, storage: Storage, key: str, name: str, data: Data) -> LoadedRows:
    reward = _scored(ctx.spec)
    content_hash = key.rpartition("/")[2] if key.startswith("objects/") else None
    local = storage.fetch_file(key, ctx.scratch / "data" / key.rpartition("/")[2], content_hash)
    with local.open("rb") as file:
        loaded = load_rows(
            file,
            name,
            data,
            need_answer=reward is not None and needs_answer(reward),
            for_sft=ctx.spec.recipe == "sft",
            for_pairs=ctx.spec.recipe == "dpo",
            check=_fits_reward(ctx.spec),
        )
    if loaded.bad_count:
        shown = "\n".join(f"line {row.line}: {row.message}" for row in loaded.bad[:NAMED_ROWS])
        more = f"\nand {loaded.bad_count - NAMED_ROWS:,} more" if loaded.bad_count > NAMED_ROWS else ""
        text = f"{loaded.bad_count:,} of {loaded.total:,} rows of {name!r} are left out:\n{shown}{more}"
        ctx.emit("log", level="warning", text=text)
    local.unlink()
    return loaded


def _fits_reward(spec: TaskSpec) -> Callable[[DataRow], str | None] | None:
    if spec.environment.kind != "single_turn":
        return lambda row: _task_problem(spec.environment.kind, row)
    reward = _scored(spec)
    return None if reward is None else lambda row: row_problem(reward, row.answer, row.row)


def _task_problem(kind: str, row: DataRow) -> str | None:
    try:
        ENVIRONMENTS[kind].make().reset(row.row)
    except ValueError as error:
        return str(error)
    return None


def _scored(spec: TaskSpec) -> RewardSpec | None:
    """The reward, where the recipe reads it."""
    return None if RECIPES[spec.recipe].reward == "unread" else spec.reward


def _tell_isolation(ctx: RunContext, scorer: Scorer) -> None:
    if lacks := scorer.isolation_lacks():
        text = "Code of the reward runs with fewer walls than there could be:\n" + "\n".join(lacks)
        ctx.emit("log", level="warning", text=text)


def _spent_words(spent: Mapping[str, float]) -> str:
    calls, tokens, rate = spent["judge/calls"], spent["judge/tokens"], spent["judge/cache_hit_rate"]
    cost = f", {spent['judge/cost']:.4g} in money" if spent["judge/cost"] else ""
    return f"Judges: {calls:,.0f} requests, {tokens:,.0f} tokens{cost}; {rate:.0%} of the questions were known already."


def _load_torch(threads: int) -> Any:
    """Import the recipes and hold torch to the leased threads; the first import takes seconds."""
    start = time.monotonic()
    import torch

    # For this thread: OpenMP keeps the number per thread, and the recipe runs in this one.
    torch.set_num_threads(threads)
    run = importlib.import_module("trainers.recipes.run")
    logger.info("torch %s, %d threads, loaded in %.1f s", torch.__version__, threads, time.monotonic() - start)
    return run.run_recipe
