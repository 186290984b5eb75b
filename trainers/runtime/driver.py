"""The driver: the detached Ray actor that runs one attempt and answers for it.

Light to import (no torch), since the control plane imports it to start one. Long polls and commands are answered from
threads of their own while the recipe trains in another.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

import ray

from trainers.runtime.attempt import AttemptRun
from trainers.runtime.payload import DriverStatus, Launch, PollAnswer

POLL_THREADS = 8
CONTROL_THREADS = 4
CONCURRENCY = {"poll": POLL_THREADS, "control": CONTROL_THREADS}


class Driver:
    """See :mod:`trainers.runtime.launch` for how it is started and called."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = Launch.model_validate(launch)
        self._lock = threading.Lock()
        with suppress(OSError):  # a container may forbid it; then the run is merely less polite
            os.nice(max(0, self._launch.niceness - os.nice(0)))
        self._run = AttemptRun(self._launch, ray.get_runtime_context().get_node_id())

    @ray.method(concurrency_group="control")
    def start(self) -> DriverStatus:
        """Begin the run; does nothing when it has begun."""
        self._run.start()
        return self._run.status()

    @ray.method(concurrency_group="poll")
    def poll(self, after: int, wait_s: float, limit: int) -> PollAnswer:
        return self._run.poll(after, wait_s, limit)

    @ray.method(concurrency_group="control")
    def cancel(self, grace_s: float) -> DriverStatus:
        self._run.cancel(grace_s)
        return self._run.status()

    @ray.method(concurrency_group="control")
    def pause(self) -> DriverStatus:
        """Write a checkpoint at the next step and end."""
        self._run.pause()
        return self._run.status()

    @ray.method(concurrency_group="control")
    def status(self) -> DriverStatus:
        return self._run.status()

    @ray.method(concurrency_group="control")
    def stop(self, timeout_s: float) -> DriverStatus:
        """Cancel if it still runs, and wait until all it said is safe."""
        self._run.cancel(timeout_s / 2)
        self._run.wait(timeout_s)
        return self._run.status()


def environment(launch: Launch) -> dict[str, str]:
    """Environment variables of a driver's process; they must be there before torch and OpenMP are loaded."""
    threads = str(launch.threads)
    variables = {
        "OMP_NUM_THREADS": threads,
        # Threads that spin while they wait are many times slower as soon as anything else runs on the machine.
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TRANSFORMERS_VERBOSITY": "warning",
        "PYTHONFAULTHANDLER": "1",
    }
    if launch.gpu_indexes:
        # Ray would number the devices by its own count; the lease has already chosen them.
        variables["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] = "1"
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in launch.gpu_indexes)
    return variables
