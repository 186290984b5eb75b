"""The task spec: the standard, versioned description of one training task.

It is the only thing that crosses from the algorithm side (form, REST, ``RLTask``) to the compute side. It names data
and a reward, never a node; everything in it is checked here, once, for every door. Unknown fields and impossible
values are refused with the path of the field (:class:`SpecError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainers.rewards.spec import COMPONENT_KINDS, RewardSpec

DEFAULT_MODEL = "smollm2-135m-instruct"

LossName = Literal["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"]
RecipeName = Literal["sft", "grpo"]
Tier = Literal["reserved", "spot", "on_demand"]


class Section(BaseModel):
    """A part of the spec: unknown fields are errors, values do not change after the check."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Lora(Section):
    """Low-rank adapter (Hu et al. 2021, arXiv:2106.09685): W + (alpha / rank) · B·A, only A and B are trained."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(16, ge=1, le=512, description="Rank of the two factors. 8-32 suits reinforcement learning.")
    alpha: float = Field(32.0, gt=0, le=4096, description="Scale; the update is multiplied by alpha / rank.")
    attention: bool = Field(True, description="Adapt the attention projections (q, k, v, o).")
    mlp: bool = Field(True, description="Adapt the feed-forward projections (gate, up, down).")
    unembedding: bool = Field(False, description="Adapt the output layer. Rarely needed; grows the adapter.")

    @model_validator(mode="after")
    def _adapts_something(self) -> Lora:
        if not (self.attention or self.mlp or self.unembedding):
            raise ValueError("at least one of attention, mlp and unembedding must be true, or nothing would be trained")
        return self


class Model(Section):
    base: str = Field(DEFAULT_MODEL, min_length=1, max_length=400, description="Name of a registered base model.")
    adapter: Lora = Field(default_factory=Lora)
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Number format of the weights in training.")


class Columns(Section):
    """Which column of the dataset plays which part. A part left empty is found by its usual names."""

    prompt: str | None = Field(None, max_length=200, description="The question or instruction.")
    answer: str | None = Field(None, max_length=200, description="The reference answer (for rewards and for SFT).")
    messages: str | None = Field(None, max_length=200, description="A list of chat messages with role and content.")
    system: str | None = Field(None, max_length=200, description="A system prompt per row.")


class Data(Section):
    source: str = Field(
        min_length=1,
        max_length=2000,
        description="A registered dataset (`dataset:<id>@<version>`), or a path that the client uploads first.",
    )
    columns: Columns = Field(default_factory=Columns)
    system_prompt: str | None = Field(None, max_length=20_000, description="System prompt put before every row.")
    limit: int | None = Field(None, ge=1, description="Use at most this many rows.")
    max_bad_rows: int = Field(
        0, ge=0, description="Start although up to this many rows cannot be used; they are left out and listed."
    )
    shuffle: bool = Field(True, description="Draw the prompts in random order (by seed) instead of file order.")


class Environment(Section):
    """How an episode runs. One turn: the prompt goes in, the completion is rewarded."""

    kind: Literal["single_turn"] = "single_turn"


class Loss(Section):
    """Which loss, by the Tinker protocol's names; formulas in ``trainers.losses``."""

    name: LossName = Field("ppo", description="ppo and gspo clip the ratio, cispo clips its weight, dro penalizes it.")
    clip_low: float = Field(0.8, gt=0, le=1, description="Lower bound of the probability ratio (ppo, cispo, gspo).")
    clip_high: float = Field(1.2, ge=1, le=100, description="Upper bound of the probability ratio (ppo, cispo, gspo).")
    beta: float = Field(0.05, ge=0, le=100, description="Strength of the quadratic term (dro only).")
    kl_coefficient: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Weight of the KL penalty to the base model. 0 leaves it out (and saves its time).",
    )


class Sampling(Section):
    group_size: int = Field(8, ge=2, le=1024, description="Completions per prompt; their mean is the baseline.")
    max_new_tokens: int = Field(256, ge=1, le=32_768, description="A completion is cut after this many tokens.")
    temperature: float = Field(1.0, gt=0, le=5, description="Sampling temperature of the policy.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling. Below 1 the policy is sampled off-policy.")


class Hyperparameters(Section):
    steps: int | None = Field(None, ge=1, le=10_000_000, description="Optimizer steps. Empty: one pass over the data.")
    batch_size: int = Field(8, ge=1, le=65_536, description="Prompts (or SFT rows) per step.")
    learning_rate: float = Field(2e-4, gt=0, le=1, description="Peak learning rate of AdamW.")
    warmup_steps: int = Field(0, ge=0, description="Steps over which the learning rate rises from 0.")
    schedule: Literal["constant", "linear", "cosine"] = Field("constant", description="Decay after warm-up.")
    weight_decay: float = Field(0.0, ge=0, le=1, description="Decoupled weight decay (AdamW).")
    beta1: float = Field(0.9, ge=0, lt=1, description="Decay of AdamW's mean of gradients.")
    beta2: float = Field(0.95, ge=0, lt=1, description="Decay of AdamW's mean of squared gradients.")
    eps: float = Field(1e-8, gt=0, lt=1, description="Added to AdamW's divisor.")
    grad_clip_norm: float = Field(1.0, ge=0, le=1e6, description="Global gradient norm is cut to this. 0: no limit.")
    max_prompt_tokens: int = Field(2048, ge=8, le=1_000_000, description="Longer prompts are left out, and counted.")
    advantage: Literal["mean", "mean_std"] = Field(
        "mean_std", description="Advantage = reward minus the group's mean; mean_std also divides by its deviation."
    )
    updates_per_batch: int = Field(1, ge=1, le=64, description="Optimizer steps on each batch of rollouts.")


class Evaluation(Section):
    every_steps: int = Field(
        10, ge=0, description="Evaluate held-out prompts every so many steps. 0: only before and after."
    )
    prompts: int = Field(64, ge=0, le=100_000, description="Held-out prompts. 0 turns evaluation off.")
    samples_per_prompt: int = Field(
        4, ge=1, le=256, description="Completions per held-out prompt at the training temperature."
    )
    final_samples_per_prompt: int | None = Field(
        None, ge=1, le=256, description="The same for the first and last evaluation. Empty: as above."
    )
    source: str | None = Field(None, max_length=2000, description="A dataset of its own for evaluation.")
    greedy: bool = Field(True, description="Also evaluate at temperature 0.")


class Checkpointing(Section):
    every_steps: int = Field(1000, ge=1, description="A checkpoint at least every so many steps.")
    every_minutes: float = Field(10.0, gt=0, le=10_000, description="And at least every so many minutes.")
    keep: int = Field(3, ge=1, le=1000, description="How many automatic checkpoints are kept.")


class Resources(Section):
    """What the job asks of the cluster. Devices left empty are derived by the platform."""

    tier: Tier = Field("reserved", description="reserved: never interrupted; spot: cheap, may be interrupted.")
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="Kind of device.")
    devices: int | None = Field(None, ge=1, le=100_000, description="How many (CPU cores or GPUs). Empty: derived.")


class Budget(Section):
    amount: Decimal | None = Field(None, gt=0, le=Decimal("1e9"), decimal_places=6, description="Stop at this cost.")
    minutes: float | None = Field(None, gt=0, le=1e7, description="Stop after so many minutes of running.")


class TaskSpec(Section):
    """One training task. See docs/task-spec.md for every field, and ``task-spec.schema.json`` for programs."""

    version: Literal[1] = 1
    name: str = Field("training", min_length=1, max_length=200, description="How the job is called on every page.")
    recipe: RecipeName = Field(description="The algorithm's loop: sft (imitate answers) or grpo (learn from rewards).")
    model: Model = Field(default_factory=Model)
    data: Data
    environment: Environment = Field(default_factory=Environment)
    reward: RewardSpec | None = Field(None, description="How a completion is scored; needed by grpo.")
    loss: Loss = Field(default_factory=Loss)
    sampling: Sampling = Field(default_factory=Sampling)
    hyperparameters: Hyperparameters = Field(default_factory=Hyperparameters)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    checkpointing: Checkpointing = Field(default_factory=Checkpointing)
    resources: Resources = Field(default_factory=Resources)
    budget: Budget = Field(default_factory=Budget)
    seed: int = Field(0, ge=0, lt=2**63, description="Same seed, plan and threads: same bits.")

    @model_validator(mode="before")
    @classmethod
    def _loss_follows_recipe(cls, value: Any) -> Any:
        """``sft`` without a loss means cross_entropy; the default loss belongs to grpo."""
        if isinstance(value, dict) and value.get("recipe") == "sft" and not value.get("loss"):
            return {**value, "loss": {"name": "cross_entropy"}}
        return value

    @model_validator(mode="after")
    def _parts_fit_together(self) -> TaskSpec:
        if self.recipe == "grpo":
            if self.reward is None:
                raise FieldError("reward", "the grpo recipe learns from a reward; choose one")
            if self.loss.name == "cross_entropy":
                raise FieldError(
                    "loss.name", "cross_entropy imitates answers; use the sft recipe, or a policy loss such as ppo"
                )
        if self.recipe == "sft" and self.loss.name != "cross_entropy":
            raise FieldError(
                "loss.name", f"the sft recipe trains with cross_entropy; {self.loss.name} needs the grpo recipe"
            )
        steps, warmup = self.hyperparameters.steps, self.hyperparameters.warmup_steps
        if steps is not None and warmup >= steps:
            raise FieldError(
                "hyperparameters.warmup_steps", f"warm-up of {warmup} steps leaves nothing of {steps} steps to train"
            )
        return self


class FieldError(ValueError):
    """A check over several fields that knows which field to name."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class SpecError(ValueError):
    """A task spec that cannot be run: ``errors`` is a list of ``(path, message)``, in the order of the fields."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{path or 'task'}: {message}" for path, message in errors))


def parse_spec(value: Any) -> TaskSpec:
    """Check a JSON-like value and return the spec.

    Raises :class:`SpecError` with the dotted path of every field that is wrong (``hyperparameters.learning_rate``).
    """
    try:
        return TaskSpec.model_validate(value)
    except ValidationError as error:
        raise SpecError([describe_error(item) for item in error.errors()]) from error


def field_path(location: Sequence[int | str]) -> str:
    """The dotted path of pydantic's location, without the tags of discriminated unions: no person wrote those."""
    return ".".join(
        str(part)
        for index, part in enumerate(location)
        # The tag stands behind a place in a list; elsewhere `pattern` and `length` are fields of their own.
        if not (part in COMPONENT_KINDS and index and isinstance(location[index - 1], int))
    )


def describe_error(item: Any) -> tuple[str, str]:
    """``(path, message)`` of one of pydantic's errors, in a person's words."""
    cause = item.get("ctx", {}).get("error")
    path = field_path(item["loc"])
    if isinstance(cause, FieldError):
        return cause.path, str(cause)
    if item["type"] == "extra_forbidden":
        return path, "there is no such field"
    if isinstance(cause, ValueError):
        return path, str(cause)
    message: str = item["msg"]
    return path, message[:1].lower() + message[1:]


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the task spec, as exported to docs/task-spec.schema.json."""
    return TaskSpec.model_json_schema()
