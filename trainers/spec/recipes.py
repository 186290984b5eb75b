"""The recipes by name: which losses fit each, and which parts of the spec it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

RecipeName = Literal["sft", "grpo", "ppo_critic", "dpo", "distill", "best_of_n", "evaluate"]


@dataclass(frozen=True)
class Recipe:
    """``losses``: the loss names that fit, the default first; empty when no loss is read.

    ``reward`` says whether a reward is needed, may be given, or is not read.
    """

    title: str
    text: str
    losses: tuple[str, ...]
    reward: Literal["needed", "optional", "unread"]
    samples: bool = True
    environments: bool = False


RECIPES: dict[str, Recipe] = {
    "grpo": Recipe(
        "Learn from a reward",
        "The model answers, the reward scores, and better answers become likelier (GRPO).",
        ("ppo", "importance_sampling", "cispo", "dro", "gspo", "custom"),
        "needed",
        environments=True,
    ),
    "sft": Recipe(
        "Imitate answers",
        "The model learns to write the answers that the dataset holds (SFT).",
        ("cross_entropy",),
        "unread",
        samples=False,
    ),
    "dpo": Recipe(
        "Prefer the better of two",
        "Each row has a better and a worse answer; the model learns to tell them apart (DPO).",
        ("dpo", "ipo", "kto"),
        "unread",
        samples=False,
    ),
    "ppo_critic": Recipe(
        "Learn from a reward, with a value network",
        "A second network learns to foresee the reward, token by token (PPO with GAE).",
        ("ppo", "importance_sampling", "cispo", "custom"),
        "needed",
        environments=True,
    ),
    "best_of_n": Recipe(
        "Imitate its own best answers",
        "The model answers several times, the reward picks the best, and those are imitated (expert iteration).",
        ("cross_entropy",),
        "needed",
        environments=True,
    ),
    "distill": Recipe(
        "Learn from a teacher",
        "The model answers, and a stronger model says of every token how likely it would have been (distillation).",
        ("importance_sampling", "ppo", "cispo"),
        "optional",
    ),
    "evaluate": Recipe(
        "Only measure",
        "Nothing is trained: the model answers the held-out prompts and the reward scores them.",
        (),
        "needed",
        environments=True,
    ),
}
assert set(RECIPES) == set(get_args(RecipeName))

_POLICY = frozenset({"grpo", "ppo_critic", "distill"})
_REWARDED = frozenset(name for name, recipe in RECIPES.items() if recipe.reward != "unread")
_SAMPLING = frozenset(name for name, recipe in RECIPES.items() if recipe.samples)
_TRAINING = frozenset(RECIPES) - {"evaluate"}
_GROUPS = frozenset({"grpo"})

# The longest matching path decides; what no path matches is read by every recipe.
_READ_BY: dict[str, frozenset[str]] = {
    "reward": _REWARDED,
    "environment": frozenset(name for name, recipe in RECIPES.items() if recipe.environments),
    "loss": _POLICY | {"dpo"},
    "loss.clip_low": _POLICY,
    "loss.clip_high": _POLICY,
    "loss.beta": frozenset({"grpo", "dpo"}),
    "loss.kl_coefficient": _POLICY - {"distill"},
    "loss.kl_in": _POLICY - {"distill"},
    "loss.importance_cap": _GROUPS | {"distill"},
    "loss.label_smoothing": frozenset({"dpo"}),
    "loss.expression": frozenset({"grpo", "ppo_critic"}),
    "sampling": _SAMPLING,
    "sampling.group_size": _SAMPLING - {"evaluate"},
    "sampling.dynamic_rounds": _GROUPS,
    "sampling.overlong_tokens": frozenset({"grpo", "ppo_critic"}),
    "sampling.overlong_penalty": frozenset({"grpo", "ppo_critic"}),
    "sampling.mask_truncated": frozenset({"grpo", "ppo_critic"}),
    "sampling.one_step_off_policy": _GROUPS,
    "hyperparameters": _TRAINING,
    "hyperparameters.max_prompt_tokens": frozenset(RECIPES),
    "hyperparameters.advantage": _GROUPS,
    "hyperparameters.normalization": _POLICY,
    "hyperparameters.updates_per_batch": _POLICY | {"best_of_n"},
    "hyperparameters.minibatches": _POLICY | {"best_of_n"},
    "data.columns.text": frozenset({"sft"}),
    "data.columns.chosen": frozenset({"dpo"}),
    "data.columns.rejected": frozenset({"dpo"}),
    "evaluation.samples_per_prompt": _SAMPLING,
    "evaluation.final_samples_per_prompt": _SAMPLING,
    "evaluation.greedy": _SAMPLING,
    "evaluation.every_steps": _TRAINING,
    "checkpointing": _TRAINING,
    "critic": frozenset({"ppo_critic"}),
    "distillation": frozenset({"distill"}),
    "selection": frozenset({"best_of_n"}),
}


def read_by(path: str) -> frozenset[str]:
    """The recipes that read the value at a dotted path of the spec."""
    while path:
        if path in _READ_BY:
            return _READ_BY[path]
        path = path.rpartition(".")[0]
    return frozenset(RECIPES)
