"""Run by test_second_node: a head and one more node, real raylets both, on this machine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import ray
from ray.cluster_utils import Cluster

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.integration.runtime.small_runs import NAMESPACE, Bench
from trainers.runtime import launch as runtime
from trainers.storage import Storage

STORE_BYTES = 100 << 20


def main(folder: Path) -> None:
    # By its defaults Ray takes 15 s to call a silent node dead.
    health = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    head = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "_system_config": health}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        runtime.connect(cluster.address, NAMESPACE)
        known = {node.id for node in runtime.cluster_nodes()}
        second = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        node_id = next(node.id for node in runtime.cluster_nodes() if node.id not in known)
        bench = Bench(folder, Storage(f"file://{folder}/store"), "objects/00/00")

        far = bench.start("far", node_id=node_id)
        pid = runtime.status(far)["pid"]
        assert runtime.status(far)["node_id"] == node_id
        _refuses_a_full_node(node_id)
        os.kill(pid, signal.SIGSTOP)
        assert runtime.kill_driver("job-far", grace_s=0.2)
        assert not _runs(pid)
        runtime.remove_group("job-far")

        lost = bench.start("lost", node_id=node_id)
        pid = runtime.status(lost)["pid"]
        begun = time.monotonic()
        cluster.remove_node(second, allow_graceful=False)
        _until(lambda: runtime.driver_alive(lost) is False)
        assert _cause_of_death("job-lost") == "The driver's node died."
        sys.stdout.write(f"missed after {time.monotonic() - begun:.1f} s\n")
        assert time.monotonic() - begun < 10
        _until(lambda: not runtime.node_alive(node_id))
        sys.stdout.write(f"dead in the table after {time.monotonic() - begun:.1f} s\n")
        assert time.monotonic() - begun < 10
        assert runtime.kill_driver("job-lost")
        _until(lambda: not _runs(pid))
        sys.stdout.write("all held\n")
    finally:
        ray.shutdown()
        cluster.shutdown()


def _cause_of_death(name: str) -> str:
    try:
        runtime.find_driver(name)
    except runtime.DriverGone as gone:
        return str(gone)
    raise AssertionError("it was found")


def _refuses_a_full_node(node_id: str) -> None:
    try:
        runtime.create_group("no-room", [{"CPU": 1}], [node_id], 0.5)
    except runtime.GroupNotPlaced:
        return
    raise AssertionError("the group went to another node")


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
