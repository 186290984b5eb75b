"""The friendly names of ``RLTask`` and the fields of the task spec they stand for."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from os import PathLike, fspath
from typing import Any

from tuneyard.errors import TaskError

# The losses of each recipe, its own first; none is read by ``evaluate``.
RECIPES: dict[str, tuple[str, ...]] = {
    "sft": ("cross_entropy",),
    "grpo": ("ppo", "importance_sampling", "cispo", "dro", "gspo", "custom"),
    "dpo": ("dpo", "ipo", "kto"),
    "ppo_critic": ("ppo", "importance_sampling", "cispo", "custom"),
    "best_of_n": ("cross_entropy",),
    "distill": ("importance_sampling", "ppo", "cispo"),
    "evaluate": (),
}
LOSSES = tuple(dict.fromkeys(loss for losses in RECIPES.values() for loss in losses))
NEEDS_REWARD = ("grpo", "ppo_critic", "best_of_n", "evaluate")

_SAMPLING = {
    "max_new_tokens": "sampling.max_new_tokens",
    "max_tokens": "sampling.max_new_tokens",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "group_size": "sampling.group_size",
}

ENV_CONFIG = {
    "dataset_path": "data.source",
    "dataset": "data.source",
    "columns": "data.columns",
    "prompt_column": "data.columns.prompt",
    "answer_column": "data.columns.answer",
    "messages_column": "data.columns.messages",
    "system_column": "data.columns.system",
    "system_prompt": "data.system_prompt",
    "limit": "data.limit",
    "max_bad_rows": "data.max_bad_rows",
    "shuffle": "data.shuffle",
    "chosen_column": "data.columns.chosen",
    "rejected_column": "data.columns.rejected",
    "text_column": "data.columns.text",
    "kind": "environment.kind",
    "max_turns": "environment.max_turns",
    "max_prompt_tokens": "hyperparameters.max_prompt_tokens",
    **_SAMPLING,
}

HYPERPARAMS = {
    "learning_rate": "hyperparameters.learning_rate",
    "lr": "hyperparameters.learning_rate",
    "batch_size": "hyperparameters.batch_size",
    "steps": "hyperparameters.steps",
    "max_steps": "hyperparameters.steps",
    "epochs": "epochs",
    "warmup_steps": "hyperparameters.warmup_steps",
    "schedule": "hyperparameters.schedule",
    "weight_decay": "hyperparameters.weight_decay",
    "beta1": "hyperparameters.beta1",
    "beta2": "hyperparameters.beta2",
    "eps": "hyperparameters.eps",
    "grad_clip_norm": "hyperparameters.grad_clip_norm",
    "max_grad_norm": "hyperparameters.grad_clip_norm",
    "max_prompt_tokens": "hyperparameters.max_prompt_tokens",
    "advantage": "hyperparameters.advantage",
    "normalization": "hyperparameters.normalization",
    "updates_per_batch": "hyperparameters.updates_per_batch",
    "minibatches": "hyperparameters.minibatches",
    "dynamic_rounds": "sampling.dynamic_rounds",
    "overlong_tokens": "sampling.overlong_tokens",
    "overlong_penalty": "sampling.overlong_penalty",
    "mask_truncated": "sampling.mask_truncated",
    "one_step_off_policy": "sampling.one_step_off_policy",
    "importance_cap": "loss.importance_cap",
    "teacher": "distillation.teacher",
    "teacher_adapter": "distillation.teacher_adapter",
    "keep": "selection.keep",
    "minimum_reward": "selection.minimum_reward",
    "critic_learning_rate": "critic.learning_rate",
    "gae_lambda": "critic.gae_lambda",
    "discount": "critic.discount",
    "value_clip": "critic.value_clip",
    "critic_warmup_steps": "critic.warmup_steps",
    "clip_low": "loss.clip_low",
    "clip_high": "loss.clip_high",
    "beta": "loss.beta",
    "kl_coefficient": "loss.kl_coefficient",
    "kl_coef": "loss.kl_coefficient",
    "lora_rank": "model.adapter.rank",
    "lora_alpha": "model.adapter.alpha",
    "dtype": "model.dtype",
    "seed": "seed",
    **_SAMPLING,
}

EVALUATION = {
    "every_steps": "evaluation.every_steps",
    "prompts": "evaluation.prompts",
    "samples_per_prompt": "evaluation.samples_per_prompt",
    "final_samples_per_prompt": "evaluation.final_samples_per_prompt",
    "dataset_path": "evaluation.source",
    "source": "evaluation.source",
    "greedy": "evaluation.greedy",
}

RESOURCES = {
    "tier": "resources.tier",
    "device": "resources.device",
    "devices": "resources.devices",
    "gpus": "gpus",
    "cpus": "cpus",
}

BUDGET = {"amount": "budget.amount", "minutes": "budget.minutes"}

CHECKPOINTING = {
    "every_steps": "checkpointing.every_steps",
    "every_minutes": "checkpointing.every_minutes",
    "keep": "checkpointing.keep",
}

_LOSS_DIALS = (
    *("name", "clip_low", "clip_high", "beta", "kl_coefficient", "kl_in", "importance_cap", "label_smoothing"),
    "expression",
)
LOSS = {key: f"loss.{key}" for key in _LOSS_DIALS}

MODEL = {
    "base": "model.base",
    "start_from": "model.start_from",
    "dtype": "model.dtype",
    "adapter": "model.adapter",
    "lora_rank": "model.adapter.rank",
    "lora_alpha": "model.adapter.alpha",
}


def unknown(argument: str, key: object, known: Iterable[str]) -> TaskError:
    """The error for a key nobody knows: the nearest known one first, then all of them."""
    names = list(known)
    close = difflib.get_close_matches(str(key).lower(), names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return TaskError(f"{argument}.{key}", f"there is no such setting; {hint}Known are: {', '.join(names)}.")


def merge(spec: dict[str, Any], argument: str, values: object, table: Mapping[str, str]) -> None:
    """Put each entry of ``values`` at the path that ``table`` gives for it.

    Raises :class:`TaskError` for an unknown key, a value that JSON cannot hold, or two names of one setting that say
    different things.
    """
    if not isinstance(values, Mapping):
        raise TaskError(argument, f"must be a dict, not {type(values).__name__}")
    for key, value in values.items():
        if key not in table:
            raise unknown(argument, key, table)
        put(spec, table[key], plain(value, f"{argument}.{key}"), f"{argument}.{key}")


def put(spec: dict[str, Any], path: str, value: Any, said_by: str) -> None:
    """Set ``spec[path]``; a dict joins a dict that is there already."""
    *sections, last = path.split(".")
    for section in sections:
        spec = spec.setdefault(section, {})
        if not isinstance(spec, dict):
            raise TaskError(said_by, f"does not fit: {section} was already given as {spec!r}")
    if isinstance(value, dict) and isinstance(spec.get(last), dict):
        for key, item in value.items():
            put(spec, f"{last}.{key}", item, said_by)
    elif last in spec and spec[last] != value:
        raise TaskError(said_by, f"says {value!r}, but the same setting was already given as {spec[last]!r}")
    else:
        spec[last] = value


def plain(value: Any, path: str) -> Any:
    """``value`` as JSON holds it: paths and decimals become text, array scalars numbers."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TaskError(path, f"{value} is not a usable number")
        return value
    if isinstance(value, (Decimal, PathLike)):
        return str(value) if isinstance(value, Decimal) else fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}.{index}") for index, item in enumerate(value)]
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", 1) == 1:
        return plain(item(), path)
    raise TaskError(path, f"a {type(value).__name__} cannot be sent; use numbers, text, lists and dicts")
