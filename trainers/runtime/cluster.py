"""The connection to a Ray cluster, its nodes, and the proof that a process on one of them is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RaySystemError, RpcError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

T = TypeVar("T")

CONNECT_TIMEOUT_S = 20.0
CALL_TIMEOUT_S = 10.0
PROCESS_TITLE = "ray::Driver"


class RuntimeUnavailable(Exception):
    """Ray does not answer in time. Nothing is known about the driver: it may well be training."""


class DriverGone(Exception):
    """The driver's process is dead; the message says why, as far as Ray knows."""


class GroupNotPlaced(Exception):
    """The named nodes do not have the devices free."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node as Ray sees it; ``resources`` are totals, ``id`` is Ray's and changes when a node comes back."""

    id: str
    address: str
    hostname: str
    alive: bool
    cpus: float
    gpus: float
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


_connecting = threading.Lock()
_doubt = threading.Event()  # set by a call that Ray did not answer


def connect(address: str, namespace: str, timeout: float = CONNECT_TIMEOUT_S) -> None:
    """Connect this process to the cluster at ``host:port``; cheap when it is connected already.

    To be called before each piece of work: a connection whose head has died is given up here and made anew. (Ray
    ends a process that stays connected to a dead head for a minute.)
    """
    with _connecting:
        if ray.is_initialized():
            context = ray.get_runtime_context()
            if (context.gcs_address, context.namespace) != (address, namespace):
                raise RuntimeUnavailable(
                    f"This process is connected to Ray at {context.gcs_address}, not to {address}."
                )
            if _listens(address) is None and not (_doubt.is_set() and not _answers()):
                return
            with contextlib.suppress(RuntimeUnavailable):
                within(timeout, "disconnect", ray.shutdown)
        if (problem := _listens(address)) is not None:
            raise RuntimeUnavailable(problem)
        # In the thread of ``within`` Ray leaves SIGTERM to the process that connects.
        within(
            timeout,
            "connect",
            lambda: ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False),
        )
        _doubt.clear()


def within(seconds: float, what: str, call: Callable[[], T]) -> T:
    """``call()`` with a deadline: most calls into Ray have none of their own. Raises :class:`RuntimeUnavailable`."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    # A thread of its own, since a call that hangs must not hold up the next one, nor the end of the process.
    threading.Thread(target=run, name=f"ray-{what}", daemon=True).start()
    try:
        return future.result(seconds)
    except (TimeoutError, GetTimeoutError) as error:
        _doubt.set()
        raise RuntimeUnavailable(f"Ray did not answer within {seconds:g} s ({what}).") from error
    except (ConnectionError, RaySystemError, RpcError) as error:
        _doubt.set()
        raise RuntimeUnavailable(f"Ray does not answer ({what}): {first_line(error)}") from error


def cluster_nodes(timeout: float = CALL_TIMEOUT_S) -> list[NodeInfo]:
    """All nodes that Ray remembers, the dead ones too."""
    return [
        NodeInfo(
            id=node["NodeID"],
            address=node["NodeManagerAddress"],
            hostname=node["NodeManagerHostname"],
            alive=bool(node["Alive"]),
            cpus=float(node["Resources"].get("CPU", 0.0)),
            gpus=float(node["Resources"].get("GPU", 0.0)),
            resources=dict(node["Resources"]),
            labels=dict(node.get("Labels") or {}),
        )
        for node in within(timeout, "list nodes", ray.nodes)
    ]


def end_process(node_id: str, pid: int, grace_s: float = 5.0) -> None:
    """Return once no driver process ``pid`` is left on the node, killing it after ``grace_s`` if need be.

    Raises :class:`RuntimeUnavailable` when that cannot be made sure of. A dead node has no processes.
    """
    if node_id == ray.get_runtime_context().get_node_id():
        gone = _ended_here(pid, grace_s)
    elif not any(node.id == node_id and node.alive for node in cluster_nodes()):
        gone = True
    else:
        here = NodeAffinitySchedulingStrategy(node_id, soft=False)
        task = ray.remote(_ended_here).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
        try:
            gone = within(grace_s + 30.0, "end a process", lambda: ray.get(task.remote(pid, grace_s)))
        except RayActorError as error:
            raise RuntimeUnavailable(f"The end of process {pid} could not be confirmed: {first_line(error)}") from error
    if not gone:
        raise RuntimeUnavailable(f"Process {pid} of a driver does not end.")


def _ended_here(pid: int, grace_s: float) -> bool:
    """Whether the driver process is gone, after killing it if need be. A process number used again is not it."""
    deadline = time.monotonic() + grace_s
    killed = False
    while True:
        try:
            process = psutil.Process(pid)
            title = " ".join(process.cmdline())  # empty while it is exiting
            if process.status() == psutil.STATUS_ZOMBIE or (title and not title.startswith(PROCESS_TITLE)):
                return True
        except psutil.Error:
            return True
        if time.monotonic() > deadline:
            if killed:
                return False
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            killed, deadline = True, time.monotonic() + 5.0
        time.sleep(0.02)


def _listens(address: str) -> str | None:
    """What is wrong with the address, None if something answers there; ``ray.init`` would try for a long time."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"RAY_ADDRESS {address!r} is not host:port."
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=3.0).close()
    except OSError as error:
        return f"Nothing answers at the Ray address {address} ({error}). Is Ray running?"
    return None


def _answers() -> bool:
    try:
        within(3.0, "answer", ray.nodes)
    except (RuntimeUnavailable, RayError):
        return False
    _doubt.clear()
    return True


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def actor_record(actor_id: str, timeout: float = CALL_TIMEOUT_S) -> dict[str, Any]:
    """Ray's record of an actor, dead ones included: its State, Pid, Address and DeathCause."""
    from ray._private import state  # the public state API needs the dashboard, which a small head does without

    return dict(within(timeout, "look up an actor", lambda: state.actors(actor_id)) or {})


def actor_records_named(name: str, timeout: float = CALL_TIMEOUT_S) -> list[dict[str, Any]]:
    """The records of all actors that ever had this name in this cluster."""
    from ray._private import state

    records = within(timeout, "look up actors", lambda: state.actors())
    return [record for record in records.values() if record["Name"] == name]
