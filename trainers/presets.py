"""Example tasks, one or more for each recipe: what the job form offers to begin with.

``spec`` is a task without its data (``data.source``), which the person chooses, except where an environment makes it.
A preset is data: nothing here is special to the recipes.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from trainers.spec import DEFAULT_MODEL, ENVIRONMENT_SOURCE, TaskSpec, parse_spec

_SHORT = {"group_size": 8, "max_new_tokens": 32}
_REWARD = {"components": [{"kind": "numeric", "which": "last"}]}


@dataclass(frozen=True)
class Preset:
    """``key`` names it in addresses; ``needs`` says in a phrase what the dataset must hold.

    ``example`` is the key of a dataset in :mod:`trainers.examples` that it can be tried on.
    """

    key: str
    title: str
    description: str
    needs: str
    spec: dict[str, Any]
    example: str = ""

    def task(self, source: str = "dataset:00000000-0000-0000-0000-000000000000@1") -> TaskSpec:
        """The task on a dataset."""
        spec = copy.deepcopy(self.spec)
        spec.setdefault("data", {}).setdefault("source", source)
        return parse_spec(spec)


PRESETS: tuple[Preset, ...] = (
    Preset(
        "mathematics",
        "Mathematics with a verifier",
        "The answer is checked for mathematical equality, so 1/2 and 0.5 are the same.",
        "questions with a right answer",
        {
            "recipe": "grpo",
            "reward": {"components": [{"kind": "math", "name": "right"}]},
            "sampling": {"group_size": 8, "max_new_tokens": 32},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 5e-4},
            "evaluation": {"prompts": 32, "every_steps": 8, "samples_per_prompt": 2},
        },
        "arithmetic",
    ),
    Preset(
        "dialogue",
        "Dialogue with a reward",
        "Replies earn for being like a good one and lose for repeating themselves. "
        "A judging model can take the place of the likeness.",
        "chats that end with a good reply",
        {
            "recipe": "grpo",
            "reward": {
                "components": [
                    {"kind": "similarity", "name": "likeness", "method": "token_sort"},
                    {"kind": "length", "name": "short", "maximum": 240, "weight": 0.2},
                    {"kind": "repetition", "name": "repeats", "weight": 0.2},
                ]
            },
            "sampling": {"group_size": 8, "max_new_tokens": 48},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 3e-4},
            "evaluation": {"prompts": 32, "every_steps": 8, "samples_per_prompt": 2},
        },
        "support",
    ),
    Preset(
        "format",
        "Following a format",
        "The model learns to think between two tags and to answer between two others, and to be right.",
        "questions with short answers",
        {
            "recipe": "grpo",
            "reward": {
                "components": [
                    {"kind": "exact", "name": "right", "extract": "<answer>(.*?)</answer>"},
                    {"kind": "tags", "name": "format", "tags": ["think", "answer"], "partial": True, "weight": 0.5},
                ]
            },
            "sampling": {"group_size": 8, "max_new_tokens": 64},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 5e-4},
            "evaluation": {"prompts": 32, "every_steps": 8, "samples_per_prompt": 2},
        },
        "tagged",
    ),
    Preset(
        "programs",
        "Code with tests",
        "Each program runs against the tests of its row in a sandbox; the share that passes is the reward.",
        "prompts with a column of tests",
        {
            "recipe": "grpo",
            "reward": {"components": [{"kind": "code", "name": "tests"}]},
            "sampling": {"group_size": 4, "max_new_tokens": 64},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 3e-4},
            "evaluation": {"prompts": 16, "every_steps": 12, "samples_per_prompt": 2},
        },
        "programs",
    ),
    Preset(
        "preferences",
        "Preference pairs",
        "Each row says which of two replies is better; no reward is needed (DPO).",
        "prompts with a chosen and a rejected reply",
        {
            "recipe": "dpo",
            "loss": {"name": "dpo", "beta": 0.1},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 2e-5, "warmup_steps": 2},
            "evaluation": {"prompts": 32, "every_steps": 12},
        },
        "pairs",
    ),
    Preset(
        "distillation",
        "Distillation from a teacher",
        "The student writes and the teacher judges every token. Choose the teacher under Reward, Advanced.",
        "prompts; answers are not read",
        {
            "recipe": "distill",
            "distillation": {"teacher": DEFAULT_MODEL},
            "sampling": {"group_size": 2, "max_new_tokens": 48},
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 2e-4},
            "evaluation": {"prompts": 16, "every_steps": 12, "samples_per_prompt": 1},
        },
        "questions",
    ),
    Preset(
        "grpo-answers",
        "Right answers by trial",
        "GRPO with short answers and a reward that compares a number: the quickest way to see a model improve.",
        "prompts with numeric answers",
        {
            "recipe": "grpo",
            "reward": _REWARD,
            "sampling": _SHORT,
            "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 5e-4},
            "evaluation": {"every_steps": 6, "samples_per_prompt": 4},
        },
    ),
    Preset(
        "dapo",
        "Long reasoning (DAPO)",
        "Clip-higher, only mixed groups, token-level average and a soft penalty near the limit, as in DAPO.",
        "hard prompts with numeric answers",
        {
            "recipe": "grpo",
            "reward": _REWARD,
            "loss": {"name": "ppo", "clip_low": 0.8, "clip_high": 1.28},
            "sampling": {
                "group_size": 16,
                "max_new_tokens": 512,
                "dynamic_rounds": 3,
                "overlong_tokens": 128,
                "overlong_penalty": 1.0,
            },
            "hyperparameters": {"steps": 200, "batch_size": 16, "learning_rate": 2e-4, "minibatches": 2},
        },
    ),
    Preset(
        "dr-grpo",
        "Unbiased averages (Dr. GRPO)",
        "No division by the group's deviation and none by length, which favor easy prompts and long wrong answers.",
        "prompts with numeric answers",
        {
            "recipe": "grpo",
            "reward": _REWARD,
            "sampling": {"group_size": 8, "max_new_tokens": 256},
            "hyperparameters": {
                "steps": 100,
                "batch_size": 8,
                "learning_rate": 2e-4,
                "advantage": "mean",
                "normalization": "constant",
            },
        },
    ),
    Preset(
        "gspo",
        "One ratio per answer (GSPO)",
        "Sequence-level ratios with a narrow clip, several updates per batch.",
        "prompts with numeric answers",
        {
            "recipe": "grpo",
            "reward": _REWARD,
            "loss": {"name": "gspo", "clip_low": 0.9997, "clip_high": 1.0004},
            "sampling": {"group_size": 8, "max_new_tokens": 256},
            "hyperparameters": {
                "steps": 100,
                "batch_size": 16,
                "learning_rate": 2e-4,
                "normalization": "sequence",
                "minibatches": 4,
            },
        },
    ),
    Preset(
        "sft",
        "Supervised fine-tuning",
        "Imitation of the answers, with three per cent warm-up and a cosine: the usual first stage.",
        "prompts with answers, or chats",
        {
            "recipe": "sft",
            "hyperparameters": {
                "steps": 100,
                "batch_size": 16,
                "learning_rate": 2e-4,
                "warmup_steps": 3,
                "schedule": "cosine",
            },
        },
    ),
    Preset(
        "dpo",
        "Direct preference optimization",
        "DPO with its usual strength 0.1 and a low learning rate, warm-up and a linear decay.",
        "prompts with a chosen and a rejected answer",
        {
            "recipe": "dpo",
            "loss": {"name": "dpo", "beta": 0.1},
            "hyperparameters": {
                "steps": 100,
                "batch_size": 16,
                "learning_rate": 2e-5,
                "warmup_steps": 10,
                "schedule": "linear",
            },
        },
    ),
    Preset(
        "ppo-critic",
        "PPO with a value network",
        "A critic foresees the reward token by token; for long answers where one reward at the end says little.",
        "prompts with numeric answers",
        {
            "recipe": "ppo_critic",
            "reward": _REWARD,
            "sampling": {"group_size": 4, "max_new_tokens": 128},
            "critic": {"learning_rate": 1e-3, "gae_lambda": 0.95, "warmup_steps": 5},
            "hyperparameters": {"steps": 100, "batch_size": 16, "learning_rate": 2e-4, "updates_per_batch": 2},
        },
    ),
    Preset(
        "best-of-n",
        "Best two of sixteen",
        "Expert iteration: of sixteen answers the best two are imitated. Robust, and needs no clipping.",
        "prompts with numeric answers",
        {
            "recipe": "best_of_n",
            "reward": _REWARD,
            "sampling": {"group_size": 16, "max_new_tokens": 64},
            "selection": {"keep": 2},
            "hyperparameters": {"steps": 40, "batch_size": 8, "learning_rate": 2e-4},
        },
    ),
    Preset(
        "distill",
        "On-policy distillation",
        "The teacher judges every token that the student writes. Choose the teacher below.",
        "prompts; answers are not read",
        {
            "recipe": "distill",
            "distillation": {"teacher": "smollm2-135m-instruct"},
            "sampling": {"group_size": 4, "max_new_tokens": 128},
            "hyperparameters": {"steps": 100, "batch_size": 16, "learning_rate": 2e-4},
        },
    ),
    Preset(
        "evaluate",
        "Measure a model",
        "Answers the held-out prompts eight times each and greedily, and says how often they are right.",
        "prompts with numeric answers",
        {
            "recipe": "evaluate",
            "reward": _REWARD,
            "sampling": {"max_new_tokens": 256},
            "evaluation": {"prompts": 200, "samples_per_prompt": 8},
        },
    ),
    Preset(
        "countdown",
        "Countdown: arithmetic in several turns",
        "The environment gives numbers and a target, and says what a wrong try makes. It brings its own tasks.",
        "nothing: the environment makes its tasks",
        {
            "recipe": "grpo",
            "data": {"source": ENVIRONMENT_SOURCE},
            "environment": {"kind": "countdown", "max_turns": 3},
            "sampling": {"group_size": 8, "max_new_tokens": 48},
            "hyperparameters": {"steps": 60, "batch_size": 8, "learning_rate": 3e-4},
        },
    ),
    Preset(
        "guess",
        "Guess a number in several turns",
        "The environment says higher or lower; finding it sooner earns more.",
        "nothing: the environment makes its tasks",
        {
            "recipe": "grpo",
            "data": {"source": ENVIRONMENT_SOURCE},
            "environment": {"kind": "guess"},
            "sampling": {"group_size": 8, "max_new_tokens": 8},
            "hyperparameters": {"steps": 40, "batch_size": 8, "learning_rate": 3e-4},
        },
    ),
)
BY_KEY = {preset.key: preset for preset in PRESETS}
