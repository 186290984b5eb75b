"""The size dial: one choice that sets how much a job does, for those who do not want to choose four numbers."""

from __future__ import annotations

from dataclasses import dataclass

STEPS = "hyperparameters.steps"
PROMPTS = "hyperparameters.batch_size"
GROUP = "sampling.group_size"
TOKENS = "sampling.max_new_tokens"


@dataclass(frozen=True)
class Size:
    """``values`` are spec values by dotted path."""

    key: str
    label: str
    meaning: str
    values: dict[str, int]


SIZES = (
    Size(
        "small",
        "Small",
        "20 steps of short answers: does the reward teach anything?",
        {STEPS: 20, PROMPTS: 8, GROUP: 8, TOKENS: 32},
    ),
    Size(
        "medium",
        "Medium",
        "100 steps, answers of a paragraph: a first real result.",
        {STEPS: 100, PROMPTS: 8, GROUP: 8, TOKENS: 128},
    ),
    Size(
        "large",
        "Large",
        "400 steps, answers with room for reasoning: to train to the end.",
        {STEPS: 400, PROMPTS: 16, GROUP: 8, TOKENS: 512},
    ),
)
CUSTOM = "custom"
GOVERNED = (STEPS, PROMPTS, GROUP, TOKENS)
BY_KEY = {size.key: size for size in SIZES}


def size_of(values: dict[str, object]) -> str:
    """The size whose values these are, or ``custom``."""
    for size in SIZES:
        if all(str(values.get(path, "")) == str(value) for path, value in size.values.items()):
            return size.key
    return CUSTOM
