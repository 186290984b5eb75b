"""A control-plane process outlives the Ray head it is connected to, and connects to the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from config.launcher.part import start
from config.launcher.ray import Ray, free_port

PROBE = """
import sys, ray
from trainers.runtime import launch
for line in sys.stdin:
    try:
        launch.connect(line.strip(), "tuneyard")
        print("nodes", sum(node.alive for node in launch.cluster_nodes()), flush=True)
    except launch.RuntimeUnavailable as error:
        print("unavailable", ray.is_initialized(), flush=True)
"""


@pytest.mark.full
def test_a_process_drops_a_dead_head_and_connects_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="tyh-", dir="/tmp") as folder:
        # Ray reads its token once in a process: this head shares it with the other one of the tests.
        head = Ray(Path(folder) / "r", free_port(), os.environ["RAY_AUTH_TOKEN"])
        monkeypatch.setenv("RAY_ADDRESS", head.address)
        first = start(head.part(), tmp_path / "logs")
        try:
            probe = subprocess.Popen(
                [sys.executable, "-c", PROBE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | head.env,
            )
            assert probe.stdin is not None and probe.stdout is not None

            def ask() -> str:
                assert probe.stdin is not None and probe.stdout is not None
                probe.stdin.write(f"{head.address}\n")
                probe.stdin.flush()
                return probe.stdout.readline().strip()

            assert ask() == "nodes 1"
            first.stop()
            assert ask() == "unavailable False"
            first = start(head.part(), tmp_path / "logs")
            assert ask() == "nodes 1"
            probe.stdin.close()
            assert probe.wait(30) == 0
        finally:
            probe.kill()
            first.stop()
