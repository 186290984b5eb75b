"""Every exception has a name, a sentence and a next step; an unknown one shows no insides."""

from __future__ import annotations

import pytest
import torch

from trainers.errors import RewardError, RunError
from trainers.runtime.failures import as_event_error, name_failure
from trainers.runtime.journal import JournalFull
from trainers.spec import SpecError, parse_spec
from trainers.storage import StorageError


def _spec_error() -> SpecError:
    try:
        parse_spec({"recipe": "grpo", "data": {"source": "x"}, "hyperparameters": {"learning_rate": 9}})
    except SpecError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RunError("not_finite", "The loss is NaN.", "Lower the learning rate."), "not_finite"),
        (RewardError("The reward raised KeyError.", "Correct its code."), "reward_error"),
        (_spec_error(), "bad_data"),
        (StorageError("full", "The disk is full."), "storage"),
        (JournalFull("The disk is full."), "storage"),
        (OSError(28, "No space left on device"), "storage"),
        (MemoryError(), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
            "out_of_memory",
        ),
        (ValueError("shapes (3, 4) and (5,) do not fit"), "internal"),
        (SystemExit(3), "internal"),
    ],
)
def test_each_failure_has_a_kind_a_sentence_and_a_next_step(error: BaseException, kind: str) -> None:
    said = as_event_error(error)
    assert said["kind"] == kind
    assert said["message"].endswith(".") and said["advice"].endswith(".")


def test_a_wrong_setting_is_named_by_its_path() -> None:
    assert name_failure(_spec_error()).field == "hyperparameters.learning_rate"


def test_an_unknown_error_keeps_its_details_for_the_log() -> None:
    said = as_event_error(ValueError("secret/path"))
    assert "ValueError" in said["message"]
    assert "secret" not in said["message"] + said["advice"]
