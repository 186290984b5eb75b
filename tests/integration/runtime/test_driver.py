"""Drivers on a real Ray: a small real run, polled, cancelled, killed; nothing that was flushed is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.runtime.small_runs import SUMS, ended
from trainers.runtime import launch as runtime
from trainers.runtime.events import Event
from trainers.runtime.journal import read_local
from trainers.runtime.launch import attempt_folder, journal_prefix
from trainers.runtime.segments import read_segments

LONG = SUMS | {"hyperparameters": {"steps": 100_000, "batch_size": 2}}


def _steps(events: list[Event]) -> list[int]:
    return [e["step"] for e in events if e["kind"] == "metric" and "train/reward" in e["values"]]


def _ended_within(driver: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while runtime.driver_alive(driver) is not False:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_small_run_trains_and_every_event_arrives_once(bench: Any, follow: Any, tmp_path: Path) -> None:
    driver = bench.start("whole")
    events = follow(driver, ended)
    assert events[0]["state"] == "started"
    assert events[-1]["state"] == "succeeded", events[-1]
    assert events[-1]["result"]["steps"] == 3
    assert _steps(events) == [1, 2, 3]
    assert Counter(e["phase"] for e in events if e["kind"] == "rollout")["train"] == 3 * 2 * 4
    status = runtime.status(driver)
    assert (status["state"], status["shipped"], status["last_seq"]) == ("succeeded", True, events[-1]["seq"])
    assert list(read_segments(bench.storage, journal_prefix("whole", 1))) == events
    checkpoint = next(e for e in events if e["kind"] == "checkpoint" and e["final"])
    files = bench.storage.fetch_folder(checkpoint["uri"], tmp_path / "adapter", checkpoint["files"])
    assert "adapter_model.safetensors" in [file["name"] for file in files]
    log = "\n".join(e["text"] for e in events if e["kind"] == "log")
    assert "56 rows to train on, 4 held out" in log
    assert ", 1 threads, loaded in" in log
    assert "Traceback" not in log


def test_a_driver_has_its_lease_of_threads_and_yields_to_others(bench: Any) -> None:
    launch = bench.launch("polite", LONG, threads=1, niceness=17, gpu_indexes=[3, 5])
    driver = bench.start("polite", LONG, threads=1, niceness=17, gpu_indexes=[3, 5])
    process = psutil.Process(runtime.status(driver)["pid"])
    environment = process.environ()
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == str(launch.threads)
    assert environment["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert process.nice() == 17


def test_cancel_ends_a_run_within_three_seconds(bench: Any, follow: Any) -> None:
    driver = bench.start("cancelled", LONG)
    before = follow(driver, lambda events: len(_steps(events)) >= 2)
    start = time.monotonic()
    assert runtime.cancel_driver(driver)["state"] == "stopping"
    after = follow(driver, ended, after=before[-1]["seq"])
    assert time.monotonic() - start < 3.0
    assert after[-1]["state"] == "cancelled"
    assert list(read_segments(bench.storage, journal_prefix("cancelled", 1))) == before + after


def test_killing_the_driver_loses_nothing_that_was_flushed(bench: Any, follow: Any) -> None:
    driver = bench.start("killed", LONG)
    seen = follow(driver, lambda events: runtime.status(driver)["shipped_seq"] >= 5)
    last = runtime.status(driver)
    os.kill(last["pid"], signal.SIGKILL)
    assert _ended_within(driver, 10)
    with pytest.raises(runtime.DriverGone, match="process died"):
        runtime.poll(driver, after=0)
    with pytest.raises(runtime.DriverGone, match="process died"):
        runtime.find_driver("job-killed")
    local = list(read_local(attempt_folder(bench.folder / "work", "killed")))
    shipped = list(read_segments(bench.storage, journal_prefix("killed", 1)))
    assert local[: len(seen)] == seen
    assert len(local) >= last["last_seq"]
    assert local[: len(shipped)] == shipped and len(shipped) >= last["shipped_seq"]
    assert [event["seq"] for event in local] == list(range(1, len(local) + 1))


def test_a_second_start_finds_the_first_driver(bench: Any) -> None:
    first = bench.start("twice", LONG)
    second = bench.start("twice", LONG)
    assert runtime.status(first)["pid"] == runtime.status(second)["pid"]
    assert runtime.status(runtime.find_driver("job-twice"))["attempt_id"] == "twice"
    states = [e for e in runtime.poll(second, after=0, limit=10_000)["events"] if e["kind"] == "state"]
    assert [event["state"] for event in states] == ["started"]


def test_a_killed_driver_is_confirmed_dead_before_its_devices_go_back(bench: Any) -> None:
    driver = bench.start("ended", LONG)
    pid = runtime.status(driver)["pid"]
    assert runtime.driver_alive(driver) is True
    assert runtime.kill_driver("job-ended") is True
    assert not _runs(pid)
    assert runtime.driver_alive(driver) is False
    with pytest.raises(runtime.DriverGone, match="was ended"):
        runtime.find_driver("job-ended")
    assert runtime.kill_driver("job-ended") is True
    assert runtime.kill_driver("job-never-was") is False
    assert runtime.remove_group("job-ended") is True
    assert runtime.remove_group("job-ended") is False


def test_a_process_that_hangs_is_killed_from_its_node(bench: Any) -> None:
    driver = bench.start("hung", LONG)
    pid = runtime.status(driver)["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert runtime.kill_driver("job-hung", grace_s=0.5) is True
    assert not _runs(pid)


def test_a_dataset_that_is_gone_fails_the_run_by_name(bench: Any, follow: Any) -> None:
    driver = bench.start("lost", dataset_key="objects/00/00")
    last = follow(driver, ended)[-1]
    assert (last["state"], last["error"]["kind"]) == ("failed", "storage")
    assert "objects/00/00 is not in" in last["error"]["message"]


def test_a_driver_that_cannot_begin_says_why(bench: Any) -> None:
    (bench.folder / "file").write_text("in the way")
    with pytest.raises(runtime.DriverNotStarted, match=r"work folder .* cannot be used"):
        bench.start("blocked", work_dir=str(bench.folder / "file"))


def test_a_group_that_does_not_fit_leaves_nothing_behind(bench: Any) -> None:
    node = next(node for node in runtime.cluster_nodes() if node.alive)
    for name, bundle, node_id in [("nowhere", {"CPU": 1}, "f" * 56), ("too-large", {"CPU": 999}, node.id)]:
        with pytest.raises(runtime.GroupNotPlaced, match=r"were not free within 0\.5 s"):
            runtime.create_group(name, [bundle], [node_id], 0.5)
        assert runtime.remove_group(name) is False


def test_nodes_are_listed_with_their_devices(bench: Any) -> None:
    alive = [node for node in runtime.cluster_nodes() if node.alive]
    assert len(alive) == 1
    assert alive[0].cpus >= 1 and alive[0].gpus == 0
    assert alive[0].labels["ray.io/node-id"] == alive[0].id


def test_another_address_is_refused_and_an_unreachable_one_named(bench: Any) -> None:
    with pytest.raises(runtime.RuntimeUnavailable, match="is connected to Ray at"):
        runtime.connect("127.0.0.1:1", "tuneyard")


def test_ray_that_does_not_answer_is_an_error_at_once(ray_address: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = (
        "import sys, time\nfrom trainers.runtime import launch\nstart = time.monotonic()\n"
        "for address in sys.argv[1:]:\n"
        "    try:\n        launch.connect(address, 'tuneyard')\n"
        "    except launch.RuntimeUnavailable as error:\n        print(error)\n"
        "print('in time' if time.monotonic() - start < 5 else 'late')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, f"127.0.0.1:{port}", "nonsense"], capture_output=True, text=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Nothing answers at the Ray address 127.0.0.1:{port}")
    assert lines[1:] == ["RAY_ADDRESS 'nonsense' is not host:port.", "in time"]
