"""What can go wrong on the device, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from trainers.errors import RunError


@contextmanager
def named_memory_errors() -> Iterator[None]:
    """Turn an allocation that failed, on CPU or GPU, into ``RunError("out_of_memory", …)``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "not enough memory" in str(error):
            raise RunError(
                "out_of_memory",
                "The device has not enough memory for this batch.",
                "Lower the batch size, the group size or the longest completion, or choose a device with more memory.",
                "hyperparameters.batch_size",
            ) from error
        raise


def not_finite() -> RunError:
    """The error for a loss that is NaN or infinite."""
    return RunError(
        "not_finite",
        "The loss is not finite (NaN or infinite).",
        "Lower the learning rate, keep gradient clipping on, and look for extreme rewards or weights.",
        "hyperparameters.learning_rate",
    )
