"""The parts of a task spec that say how the model learns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainers.spec.sections import Section

LossName = Literal[
    "cross_entropy",
    "importance_sampling",
    "ppo",
    "cispo",
    "dro",
    "gspo",
    "custom",
    "dpo",
    "ipo",
    "kto",
]
MAX_EXPRESSION = 2000


class Loss(Section):
    """Which loss; formulas and sources in docs/losses.md."""

    name: LossName = Field(
        "ppo",
        description="ppo and gspo clip the ratio, cispo clips its weight, dro penalizes it; dpo, ipo and kto learn "
        "from pairs; custom is the expression below.",
    )
    clip_low: float = Field(0.8, gt=0, le=1, description="Lower bound of the probability ratio (ppo, cispo, gspo).")
    clip_high: float = Field(1.2, ge=1, le=100, description="Upper bound of the probability ratio (ppo, cispo, gspo).")
    beta: float | None = Field(
        None,
        gt=0,
        le=100,
        description="Strength of the pull to the sampling policy (dro: 0.05) or to the reference (dpo, ipo, kto: 0.1). "
        "Empty: that default.",
    )
    kl_coefficient: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Weight of the KL penalty to the model that training started from. 0 leaves it out.",
    )
    kl_in: Literal["loss", "reward"] = Field(
        "loss", description="Where the KL penalty stands: an own term of the loss, or taken off the reward."
    )
    importance_cap: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="Weigh tokens by the ratio of the policy before the update to the one that sampled, at most this "
        "much (truncated importance sampling; 2 is common). Empty: off.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=0.5, description="Share of pairs that are taken to be labelled the wrong way round (dpo only)."
    )
    expression: str | None = Field(
        None,
        max_length=MAX_EXPRESSION,
        description="A loss of your own (custom), per token, to be minimized: such as "
        "`-minimum(ratio * advantages, clamp(ratio, 0.8, 1.2) * advantages)`. docs/losses.md has what it may use.",
    )


class Sampling(Section):
    group_size: int = Field(8, ge=1, le=1024, description="Completions per prompt; their mean is the baseline.")
    max_new_tokens: int = Field(256, ge=1, le=32_768, description="A completion is cut after this many tokens.")
    temperature: float = Field(1.0, gt=0, le=5, description="Sampling temperature of the policy.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling. Below 1 the policy is sampled off-policy.")
    dynamic_rounds: int = Field(
        0,
        ge=0,
        le=64,
        description="Replace groups whose rewards are all equal by groups of further prompts, in at most so many more "
        "rounds (DAPO's dynamic sampling). 0: off.",
    )
    overlong_tokens: int = Field(
        0,
        ge=0,
        le=32_768,
        description="Over the last so many tokens below the limit the reward falls in a line by the penalty below "
        "(DAPO's soft overlong punishment). 0: off.",
    )
    overlong_penalty: float = Field(
        1.0, ge=0, le=1000, description="What a completion at the limit loses of its reward."
    )
    mask_truncated: bool = Field(
        False, description="Do not learn from completions that the limit cut; they still count in their group's mean."
    )
    one_step_off_policy: bool = Field(
        False,
        description="Each batch is sampled before the previous update, as when sampling and training run side by side. "
        "Set an importance cap with it.",
    )


class Hyperparameters(Section):
    steps: int | None = Field(None, ge=1, le=10_000_000, description="Optimizer steps. Empty: one pass over the data.")
    batch_size: int = Field(8, ge=1, le=65_536, description="Prompts (or SFT rows, or pairs) per step.")
    learning_rate: float = Field(2e-4, gt=0, le=1, description="Peak learning rate of AdamW.")
    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises from 0.")
    schedule: Literal["constant", "linear", "cosine"] = Field("constant", description="Decay after warm-up.")
    weight_decay: float = Field(0.0, ge=0, le=1, description="Decoupled weight decay (AdamW).")
    beta1: float = Field(0.9, ge=0, lt=1, description="Decay of AdamW's mean of gradients.")
    beta2: float = Field(0.95, ge=0, lt=1, description="Decay of AdamW's mean of squared gradients.")
    eps: float = Field(1e-8, gt=0, lt=1, description="Added to AdamW's divisor.")
    grad_clip_norm: float = Field(1.0, ge=0, le=1e6, description="Global gradient norm is cut to this. 0: no limit.")
    max_prompt_tokens: int = Field(2048, ge=8, le=1_000_000, description="Longer prompts are left out, and counted.")
    advantage: Literal["mean", "mean_std", "leave_one_out"] = Field(
        "mean_std",
        description="Advantage = reward minus the group's mean; mean_std also divides by its deviation; leave_one_out "
        "takes the mean of the others (RLOO).",
    )
    normalization: Literal["token", "sequence", "constant"] = Field(
        "token",
        description="The loss is averaged over all tokens of the batch (token), over each completion and then over "
        "completions (sequence), or divided by completions × the token limit (constant, Dr. GRPO).",
    )
    updates_per_batch: int = Field(1, ge=1, le=64, description="Passes of the optimizer over each batch of rollouts.")
    minibatches: int = Field(
        1, ge=1, le=1024, description="Parts of the batch, by prompts; the optimizer makes a step on each."
    )


class Critic(Section):
    """The value network of ``ppo_critic`` (Schulman et al. 2017, arXiv:1707.06347; GAE: arXiv:1506.02438)."""

    learning_rate: float = Field(1e-3, gt=0, le=1, description="Learning rate of the value network.")
    gae_lambda: float = Field(
        0.95,
        ge=0,
        le=1,
        description="Weight of later rewards in the advantage: 1 is unbiased, lower has less variance.",
    )
    discount: float = Field(1.0, gt=0, le=1, description="Discount of a reward per token.")
    value_clip: float = Field(
        0.2, ge=0, le=1000, description="How far a value may move per update before its gradient is cut. 0: any."
    )
    warmup_steps: int = Field(
        2, ge=0, le=100_000, description="Steps in which only the value network learns, before the policy does."
    )


class Distillation(Section):
    """Who teaches in ``distill``. The teacher must share the student's tokenizer."""

    teacher: str | None = Field(
        None, max_length=400, description="Name of a registered base model. Empty: the student's own base model."
    )
    teacher_adapter: str | None = Field(
        None,
        max_length=2000,
        description="A model version (`model:<id>@<version>`) or checkpoint whose adapter the teacher has.",
    )


class Selection(Section):
    """What ``best_of_n`` imitates of each group of completions."""

    keep: int = Field(1, ge=1, le=1024, description="How many of the best completions of a prompt are imitated.")
    minimum_reward: float | None = Field(
        None, description="Only completions that earn at least this. Empty: better than their group's mean."
    )
