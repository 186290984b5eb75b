"""How much memory a task needs on one device, told before it runs; every part by its formula, none measured.

Activations per token and layer follow Korthikanti et al. 2022 (arXiv:2205.05198, section 4): 34 · hidden bytes at two
bytes a value, without the attention scores, which the engine does not keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainers.spec import RECIPES, TaskSpec

# So many tokens go through the network at a time in training; the engine reads it here.
TOKENS_PER_PASS = 1024
ACTIVATION = 17.0  # values per token, layer and unit of the hidden size: 34 bytes of two each
LOGIT_ROWS = 256
WORKING = 300_000_000  # the interpreter, torch and its buffers, as an empty engine has


@dataclass(frozen=True)
class Shape:
    """What of a model decides its memory: the numbers of a Hugging Face ``config.json``."""

    parameters: int
    layers: int
    hidden: int
    inner: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_width: int

    @classmethod
    def of_config(cls, config: Mapping[str, Any], parameters: int) -> Shape:
        """Raises ``KeyError`` or ``ValueError`` for a configuration that lacks one of them."""
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        return cls(
            parameters=parameters,
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            inner=int(config.get("intermediate_size") or 4 * hidden),
            vocabulary=int(config["vocab_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_width=int(config.get("head_dim") or hidden // heads),
        )


@dataclass(frozen=True)
class Memory:
    """Bytes by what they hold. Training and sampling take turns, so the larger of the two counts."""

    weights: int
    adapter: int
    optimizer: int
    activations: int
    cache: int

    @property
    def total(self) -> int:
        return self.weights + self.adapter + self.optimizer + max(self.activations, self.cache) + WORKING


def memory_of(task: TaskSpec, shape: Shape, *, prompt_tokens: int, answer_tokens: int = 0) -> Memory:
    """The memory of a task whose prompts have about ``prompt_tokens`` tokens (an upper figure, such as the 95th
    percentile), and its answers ``answer_tokens`` where answers are imitated."""
    recipe = RECIPES[task.recipe]
    wide = 4 if task.model.dtype == "float32" else 2
    trains = task.recipe != "evaluate"
    full = trains and task.model.adapter.kind == "full"
    adapter = 0 if full or not trains else _adapter_values(task, shape)
    trained = shape.parameters if full else adapter
    new = task.sampling.max_new_tokens if recipe.samples else answer_tokens
    group = task.sampling.group_size if recipe.samples else 2 if task.recipe == "dpo" else 1
    tokens = max(TOKENS_PER_PASS, prompt_tokens + new)
    per_token = shape.layers * (ACTIVATION * shape.hidden + 3 * shape.inner) * wide
    logits = 3 * min(LOGIT_ROWS, tokens) * shape.vocabulary * 4
    rows = task.hyperparameters.batch_size * group if recipe.samples else 0
    per_cached = 2 * shape.layers * shape.kv_heads * shape.head_width * wide
    cached = rows * new + task.hyperparameters.batch_size * prompt_tokens if recipe.samples else 0
    return Memory(
        weights=shape.parameters * wide * (2 if task.recipe == "ppo_critic" and full else 1),
        adapter=adapter * 4,
        # A gradient and AdamW's two moments, four bytes each.
        optimizer=trained * 12,
        activations=int(tokens * per_token + logits) if trains else 0,
        cache=cached * per_cached,
    )


def _adapter_values(task: TaskSpec, shape: Shape) -> int:
    """Values of the LoRA matrices: rank · (in + out) of every adapted matrix."""
    settings, h = task.model.adapter, shape.hidden
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    sides = 0
    if settings.attention:
        sides += (h + queries) * 2 + (h + keys) * 2
    if settings.mlp:
        sides += (h + shape.inner) * 3
    return int(settings.rank * (shape.layers * sides + (h + shape.vocabulary if settings.unembedding else 0)))
