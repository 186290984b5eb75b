"""The parts of a task spec that say what is trained, on what, and with which means."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULT_MODEL = "smollm2-135m-instruct"

Tier = Literal["reserved", "spot", "on_demand"]
ENVIRONMENT_SOURCE = "environment"
EnvironmentName = Literal["single_turn", "sums", "countdown", "guess"]

_START = "A model version (`model:<id>@<version>`) or checkpoint (`checkpoint:<id>`) of the project"


class Section(BaseModel):
    """A part of the spec: unknown fields are errors, values do not change after the check."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Lora(Section):
    """Low-rank adapter (Hu et al. 2021, arXiv:2106.09685): W + (alpha / rank) · B·A, only A and B are trained; or, with
    the kind ``full``, all weights of the model, and the other fields are not read."""

    kind: Literal["lora", "full"] = Field(
        "lora",
        description="lora trains an adapter. full trains all weights: 16 bytes of memory per parameter beside the "
        "model, a tenth of the learning rate, and a whole model as the result.",
    )
    rank: int = Field(16, ge=1, le=512, description="Rank of the two factors. 8-32 suits reinforcement learning.")
    alpha: float = Field(32.0, gt=0, le=4096, description="Scale; the update is multiplied by alpha / rank.")
    attention: bool = Field(True, description="Adapt the attention projections (q, k, v, o).")
    mlp: bool = Field(True, description="Adapt the feed-forward projections (gate, up, down).")
    unembedding: bool = Field(False, description="Adapt the output layer. Rarely needed; grows the adapter.")
    rslora: bool = Field(False, description="Scale by alpha / √rank instead, for high ranks (arXiv:2312.03732).")

    @model_validator(mode="after")
    def _adapts_something(self) -> Lora:
        if not (self.attention or self.mlp or self.unembedding):
            raise ValueError("at least one of attention, mlp and unembedding must be true, or nothing would be trained")
        return self


class Model(Section):
    base: str = Field(DEFAULT_MODEL, min_length=1, max_length=400, description="Name of a registered base model.")
    start_from: str | None = Field(
        None,
        max_length=2000,
        description=f"{_START} whose adapter training goes on from; it is then also the reference. "
        "Empty: the base model as it is.",
    )
    adapter: Lora = Field(default_factory=Lora)
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="Number format of the weights in training.")


class Columns(Section):
    """Which column of the dataset plays which part. A part left empty is found by its usual names."""

    prompt: str | None = Field(None, max_length=200, description="The question or instruction.")
    answer: str | None = Field(None, max_length=200, description="The reference answer (for rewards and for SFT).")
    messages: str | None = Field(None, max_length=200, description="A list of chat messages with role and content.")
    system: str | None = Field(None, max_length=200, description="A system prompt per row.")
    chosen: str | None = Field(None, max_length=200, description="The better answer of a pair (for DPO).")
    rejected: str | None = Field(None, max_length=200, description="The worse answer of a pair (for DPO).")
    text: str | None = Field(None, max_length=200, description="Plain text, to be imitated as it is (for SFT).")


class Data(Section):
    source: str = Field(
        min_length=1,
        max_length=2000,
        description="A registered dataset (`dataset:<id>@<version>`), or a path that the client uploads first; "
        "`environment` for tasks that the environment makes itself.",
    )
    columns: Columns = Field(default_factory=Columns)
    system_prompt: str | None = Field(None, max_length=20_000, description="System prompt put before every row.")
    limit: int | None = Field(None, ge=1, description="Use at most this many rows.")
    max_bad_rows: int = Field(
        0, ge=0, description="Start although up to this many rows cannot be used; they are left out and listed."
    )
    shuffle: bool = Field(True, description="Draw the prompts in random order (by seed) instead of file order.")


class Environment(Section):
    """How an episode runs. In a single turn the prompt goes in and the completion is rewarded; the others are dialogues
    with the environment, which also gives the reward. docs/environments.md has their rules."""

    kind: EnvironmentName = Field(
        "single_turn",
        description="single_turn: the reward scores one completion. sums, countdown and guess reward by themselves.",
    )
    max_turns: int = Field(
        8, ge=1, le=64, description="An episode of several turns is cut after so many turns of the model."
    )


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
    every_minutes: float = Field(
        10.0,
        gt=0,
        le=10_000,
        description="And at least every so many minutes; the platform chooses fewer if that pays.",
    )
    keep: int = Field(3, ge=1, le=1000, description="How many automatic checkpoints are kept.")
    keep_gb: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="And at most so many gigabytes of them. The newest stays in any case, and so do those you mark.",
    )


class Resources(Section):
    """What the job asks of the cluster. Devices left empty are derived by the platform."""

    tier: Tier = Field("reserved", description="reserved: never interrupted; spot: cheap, may be interrupted.")
    device: Literal["auto", "cpu", "gpu"] = Field("auto", description="Kind of device.")
    devices: int | None = Field(None, ge=1, le=100_000, description="How many (CPU cores or GPUs). Empty: derived.")


class Budget(Section):
    amount: Decimal | None = Field(None, gt=0, le=Decimal("1e9"), decimal_places=6, description="Pause at this cost.")
    minutes: float | None = Field(None, gt=0, le=1e7, description="Pause after so many minutes of running.")
