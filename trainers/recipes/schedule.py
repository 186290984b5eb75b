"""What follows from the step number alone: learning rate, rows of the batch, seeds. A run can go on from any step."""

from __future__ import annotations

import math

import numpy as np

from trainers.spec import Hyperparameters


def total_steps(hyperparameters: Hyperparameters, rows: int) -> int:
    """Optimizer batches of the run: as set, or one pass over the rows."""
    return hyperparameters.steps or max(1, math.ceil(rows / hyperparameters.batch_size))


def learning_rate(hyperparameters: Hyperparameters, step: int, total: int) -> float:
    """Rate of step 1 … ``total``: linear warm-up from 0, then constant, or falling to 0 at the end."""
    peak, warmup = hyperparameters.learning_rate, hyperparameters.warmup_steps
    if step <= warmup:
        return peak * step / warmup
    share = (step - 1 - warmup) / max(1, total - warmup)
    if hyperparameters.schedule == "linear":
        return peak * (1 - share)
    if hyperparameters.schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * share))
    return peak


def draw_rows(cursor: int, count: int, rows: int, *, seed: int, shuffle: bool) -> list[int]:
    """Indices of the next ``count`` rows after ``cursor`` were drawn: every row once per pass, each pass in an order of
    its own."""
    batch = []
    orders: dict[int, np.ndarray] = {}
    for position in range(cursor, cursor + count):
        epoch, place = divmod(position, rows)
        if shuffle and epoch not in orders:
            orders[epoch] = np.random.default_rng([seed, 1, epoch]).permutation(rows)
        batch.append(int(orders[epoch][place]) if shuffle else place)
    return batch


def derived_seed(seed: int, purpose: str, step: int) -> int:
    """A seed for one use in one step, independent of all others."""
    words = np.random.SeedSequence([seed, *purpose.encode(), step]).generate_state(2)
    return int(words[0]) << 31 | int(words[1]) >> 1
