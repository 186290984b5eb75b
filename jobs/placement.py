"""How many devices of which kind a task needs."""

from __future__ import annotations

from typing import NamedTuple

from catalog.models import BaseModel
from compute.models import DeviceKind
from compute.selectors import capacity
from trainers.spec import TaskSpec

# Beyond this a model of the sizes a CPU can train gains nothing from another thread.
MOST_CPU_CORES = 8


class DeviceNeed(NamedTuple):
    """``largest`` is how many such devices the largest living node has."""

    kind: DeviceKind
    devices: int
    largest: int


def device_need(task: TaskSpec, base: BaseModel) -> DeviceNeed:
    """What the task asks for, or what suits the cluster where it leaves the choice to the platform.

    One GPU if the tier has any, else the cores of its largest node.
    """
    sizes = capacity()
    wish = task.resources
    if wish.device == "auto":
        kind = DeviceKind.GPU if (DeviceKind.GPU, wish.tier) in sizes else DeviceKind.CPU
    else:
        kind = DeviceKind(wish.device)
    largest = sizes.get((kind, wish.tier), 0)
    if wish.devices is not None:
        return DeviceNeed(kind, wish.devices, largest)
    if kind == DeviceKind.GPU:
        return DeviceNeed(kind, 1, largest)
    return DeviceNeed(kind, max(1, min(largest, MOST_CPU_CORES)), largest)
