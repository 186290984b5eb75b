"""The state of the random number generators of a process, as plain data that a checkpoint can hold."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

CPU, CUDA, PYTHON = "torch.cpu", "torch.cuda", "python"


def rng_state() -> dict[str, Tensor]:
    """State of torch's generators (uint8) and of Python's own (int64: Mersenne words, position), by name."""
    state = {CPU: torch.get_rng_state(), PYTHON: torch.tensor(random.getstate()[1], dtype=torch.int64)}
    if torch.cuda.is_available():
        state[CUDA] = torch.cuda.get_rng_state()
    return state


def set_rng_state(state: dict[str, Tensor]) -> None:
    """Go back to a state. Raises ``ValueError`` or ``RuntimeError`` for what is none."""
    torch.set_rng_state(state[CPU])
    words: Any = tuple(state[PYTHON].tolist())
    random.setstate((3, words, None))
    if CUDA in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state[CUDA])
