"""Starting, watching and ending drivers on Ray: all that the control plane knows of it. No torch here.

Every call has a deadline. When Ray itself does not answer it raises :class:`RuntimeUnavailable`, which says nothing
about the driver; :class:`DriverGone` is raised only when its process is known to be dead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorUnavailableError, RayActorError, RayError
from ray.util.placement_group import PlacementGroup, get_placement_group, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import trainers
from trainers.runtime.cluster import (
    CALL_TIMEOUT_S,
    DriverGone,
    GroupNotPlaced,
    NodeInfo,
    RuntimeUnavailable,
    actor_record,
    actor_records_named,
    cluster_nodes,
    connect,
    end_process,
    first_line,
    within,
)
from trainers.runtime.driver import CONCURRENCY, Driver, environment
from trainers.runtime.payload import DriverStatus, Launch, PollAnswer, attempt_folder, checkpoint_prefix
from trainers.runtime.segments import journal_prefix

__all__ = [
    "DriverGone",
    "DriverNotStarted",
    "DriverStatus",
    "GroupNotPlaced",
    "Launch",
    "NodeInfo",
    "PollAnswer",
    "RuntimeUnavailable",
    "attempt_folder",
    "cancel_driver",
    "checkpoint_prefix",
    "cluster_nodes",
    "connect",
    "create_group",
    "driver_alive",
    "find_driver",
    "journal_prefix",
    "kill_driver",
    "node_alive",
    "pause_driver",
    "poll",
    "remove_group",
    "start_driver",
    "status",
    "stop_driver",
]

START_TIMEOUT_S = 60.0


class DriverNotStarted(Exception):
    """The driver's process came up but could not begin, for instance because its work folder cannot be written."""


def create_group(
    name: str, bundles: list[dict[str, float]], node_ids: list[str], timeout: float = 30.0
) -> PlacementGroup:
    """Reserve ``bundles[i]`` on the node ``node_ids[i]``, in a group that outlives this process, or find it.

    Raises :class:`GroupNotPlaced` (and leaves nothing behind) when the nodes do not have the devices free in time.
    """
    if len(bundles) != len(node_ids) or not bundles:
        raise ValueError("a group needs one node for each of its bundles")

    def make() -> PlacementGroup:
        try:
            return get_placement_group(name)
        except ValueError:
            selectors = [{"ray.io/node-id": node_id} for node_id in node_ids]
            return placement_group(
                bundles, strategy="PACK", name=name, lifetime="detached", bundle_label_selector=selectors
            )

    group = within(CALL_TIMEOUT_S, "create a placement group", make)
    if not within(timeout + CALL_TIMEOUT_S, "wait for a placement group", lambda: group.wait(timeout)):
        remove_group(name)
        raise GroupNotPlaced(
            f"The devices of {', '.join(sorted({node[:8] for node in node_ids}))} were not free within {timeout:g} s."
        )
    return group


def remove_group(name: str) -> bool:
    """Give a group's devices back to Ray, ending what runs in it; False when there is no such group."""

    def remove() -> bool:
        try:
            group = get_placement_group(name)
        except ValueError:
            return False
        remove_placement_group(group)
        return True

    return within(CALL_TIMEOUT_S, "remove a placement group", remove)


def start_driver(
    launch: Launch, group: PlacementGroup, resources: dict[str, float], timeout: float = START_TIMEOUT_S
) -> ActorHandle[Driver]:
    """Start the driver named ``launch.name`` in the group's first bundle and let it begin; finds one started before.

    Raises :class:`DriverNotStarted` with the reason, or :class:`RuntimeUnavailable` when it is not up in time (then
    it may still come up: end it by :func:`kill_driver`).
    """
    others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
    as_actor: Any = ray.remote(concurrency_groups=CONCURRENCY)  # type: ignore[call-overload] # missing in Ray's stubs
    actor_class = as_actor(Driver).options(
        name=launch.name,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=0,
        num_cpus=resources.get("CPU", 0),
        num_gpus=resources.get("GPU", 0),
        resources=others or None,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0),
        runtime_env={"env_vars": environment(launch) | _import_path()},
    )

    def start() -> ActorHandle[Driver]:
        handle = actor_class.remote(launch.model_dump(mode="json"))
        ray.get(handle.start.remote(), timeout=timeout)
        return handle

    try:
        return within(timeout + CALL_TIMEOUT_S, "start a driver", start)
    except ActorUnavailableError as error:
        raise RuntimeUnavailable(f"The driver does not answer yet: {first_line(error)}") from error
    except (RayActorError, RayError) as error:
        raise DriverNotStarted(f"The driver could not start: {_last_line(error)}") from error


def find_driver(name: str) -> ActorHandle[Driver]:
    """The running driver of that name. Raises :class:`DriverGone` when there is none (any more)."""
    try:
        return within(CALL_TIMEOUT_S, "find a driver", lambda: ray.get_actor(name))
    except ValueError:
        raise DriverGone(_cause_of_death(name)) from None


def poll(handle: ActorHandle[Driver], *, after: int, wait_s: float = 2.0, limit: int = 1000) -> PollAnswer:
    """Events after the cursor (waiting up to ``wait_s`` for the first), and how the driver stands."""
    return _call(handle, "poll", after, wait_s, limit, timeout=wait_s + CALL_TIMEOUT_S)


def status(handle: ActorHandle[Driver]) -> DriverStatus:
    """How the driver stands, without events."""
    return _call(handle, "status")


def cancel_driver(handle: ActorHandle[Driver], grace_s: float = 20.0) -> DriverStatus:
    """Ask the run to stop; it reports ``cancelled``, after ``grace_s`` at the latest. Idempotent."""
    return _call(handle, "cancel", grace_s)


def pause_driver(handle: ActorHandle[Driver]) -> DriverStatus:
    """Ask the run to write a checkpoint at the next step; it then reports ``paused``. Idempotent."""
    return _call(handle, "pause")


def stop_driver(handle: ActorHandle[Driver], timeout: float = 30.0) -> DriverStatus:
    """Cancel what still runs and wait until all the run said is safe."""
    return _call(handle, "stop", timeout, timeout=timeout + CALL_TIMEOUT_S)


def node_alive(node_id: str) -> bool:
    """Whether Ray's node table holds the node for alive. Raises :class:`RuntimeUnavailable`."""
    return any(node.id == node_id and node.alive for node in cluster_nodes())


def driver_alive(handle: ActorHandle[Driver]) -> bool | None:
    """True: it answers. False: its process is dead. None: not known (Ray or the network does not answer)."""
    try:
        status(handle)
    except DriverGone:
        return False
    except RuntimeUnavailable:
        return None
    return True


def kill_driver(name: str, grace_s: float = 5.0) -> bool:
    """End every process that ever ran under the name, and return once they are confirmed dead; False if none had.

    Raises :class:`RuntimeUnavailable` when that cannot be confirmed: the devices must not be given away then.
    """
    try:
        handle = within(CALL_TIMEOUT_S, "find a driver", lambda: ray.get_actor(name))
    except ValueError:
        records = actor_records_named(name)
    else:
        # Read first: from a record of a dead actor its process could not be found any more.
        records = [actor_record(handle._actor_id.hex())]
        within(CALL_TIMEOUT_S, "end a driver", lambda: ray.kill(handle, no_restart=True))
    for record in records:
        if record["Pid"]:
            end_process(record["Address"]["NodeID"], record["Pid"], grace_s)
    return bool(records)


def _call(handle: ActorHandle[Driver], method: str, *args: Any, timeout: float = CALL_TIMEOUT_S) -> Any:
    try:
        return within(timeout + 5.0, method, lambda: ray.get(getattr(handle, method).remote(*args), timeout=timeout))
    except ActorUnavailableError as error:
        raise RuntimeUnavailable(f"The driver does not answer: {first_line(error)}") from error
    except RayActorError as error:
        raise DriverGone(_why(str(error))) from error


def _import_path() -> dict[str, str]:
    """The driver must find this very source, wherever Ray was started; an installed package is found by itself."""
    root = Path(trainers.__file__).resolve().parent.parent
    if root.name == "site-packages":
        return {}
    return {"PYTHONPATH": f"{root}:${{PYTHONPATH}}"}


def _cause_of_death(name: str) -> str:
    records = actor_records_named(name)
    if not records:
        return "The cluster it ran on was stopped or replaced."
    newest = max(records, key=lambda record: record["StartTime"])
    return _why(str(newest["DeathCause"]))


def _why(text: str) -> str:
    """Ray's long account of a death in one sentence."""
    lowered = text.lower()
    if "running low on memory" in lowered:
        return "The node ran out of memory and the driver was killed."
    if "its node has died" in lowered or "node died" in lowered:
        return "The driver's node died."
    if "ray.kill" in lowered:
        return "The driver was ended."
    return "The driver's process died."


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
