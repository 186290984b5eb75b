"""What an exception of a run means to the person who started it: one of the named errors, with the next step."""

from __future__ import annotations

import errno
from typing import Any

from trainers.errors import RunError
from trainers.runtime.journal import JournalError
from trainers.spec import SpecError
from trainers.storage import StorageError

_NO_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory", "DefaultCPUAllocator")


_DEVICE_TEXTS = ("CUDA error", "NCCL error", "NCCL timeout", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")
# What lies with the platform, not with the task: the same task may well succeed on another node, or a little later.
_PASSING_STORAGE = frozenset({"unreachable", "other"})


def worth_retrying(error: BaseException) -> bool:
    """Whether the same task may succeed when it is run again: a fault of storage, network, disk or device.

    What the task itself brings about (bad data, reward, memory, numbers that are not finite) comes again.
    """
    if isinstance(error, RunError):
        return error.kind == "device" or (error.__cause__ is not None and worth_retrying(error.__cause__))
    if isinstance(error, StorageError):
        return error.kind in _PASSING_STORAGE
    if isinstance(error, JournalError | ConnectionError):
        return True
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
        return True
    return _says_device(error)


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
    if _says_device(error):
        return RunError(
            "device",
            f"The device stopped working ({str(error).strip().splitlines()[0][:300]}).",
            "Start it again; if it happens on the same node again, have that node looked at.",
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


def _says_device(error: BaseException) -> bool:
    """A broken device, and not one that ran out of memory."""
    if not isinstance(error, RuntimeError) or _says_no_memory(error):
        return False
    return any(text in str(error) for text in _DEVICE_TEXTS)


def _says_no_memory(error: BaseException) -> bool:
    if type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY_TEXTS)


def as_event_error(error: BaseException) -> dict[str, Any]:
    """The ``error`` field of a ``state failed`` event; ``retry`` says whether it is worth another attempt."""
    return {**name_failure(error).as_dict(), "retry": worth_retrying(error)}
