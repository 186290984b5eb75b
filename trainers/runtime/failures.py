"""What an exception of a run means to the person who started it: one of the named errors, with the next step."""

from __future__ import annotations

import errno
from typing import Any

from trainers.errors import RunError
from trainers.runtime.journal import JournalError
from trainers.spec import SpecError
from trainers.storage import StorageError

_NO_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory", "DefaultCPUAllocator")


def name_failure(error: BaseException) -> RunError:
    """The :class:`RunError` for ``error``; what has no name of its own is ``internal``."""
    if isinstance(error, RunError):
        return error
    if isinstance(error, SpecError):
        path, message = error.errors[0]
        return RunError(
            "bad_data", f"The task cannot be run: {path or 'task'}: {message}.", "Correct it and start again.", path
        )
    if isinstance(error, StorageError):
        return RunError(
            "storage", error.message, _STORAGE_ADVICE.get(error.kind, "Check the storage, then start again.")
        )
    if isinstance(error, JournalError):
        return RunError(
            "storage", f"The journal could not be written: {error}", "Free space on that disk, then start again."
        )
    if isinstance(error, MemoryError) or _says_no_memory(error):
        return RunError(
            "out_of_memory",
            "The run needed more memory than its device has.",
            "Lower the batch size, the group size or the longest completion, or choose a smaller model.",
            "hyperparameters.batch_size",
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(
            "storage", f"The disk of the node is full ({error}).", "Free space on that disk, then start again."
        )
    return RunError(
        "internal",
        f"The run stopped on an unexpected error ({type(error).__name__}).",
        "The log has the details. Start the job again; if it stops again, report it with the log.",
    )


_STORAGE_ADVICE = {
    "full": "Free space in the storage, then start again.",
    "denied": "Check the storage's permissions or credentials, then start again.",
    "missing": "Upload the file again, then start again.",
    "unreachable": "Check that the storage answers, then start again.",
    "damaged": "The stored file is damaged: upload it again, then start again.",
}


def _says_no_memory(error: BaseException) -> bool:
    if type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY_TEXTS)


def as_event_error(error: BaseException) -> dict[str, Any]:
    """The ``error`` field of a ``state failed`` event."""
    return dict(name_failure(error).as_dict())
