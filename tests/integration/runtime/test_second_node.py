"""Two nodes: drivers go where they are told, end from afar, and are known to be gone when their node dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_a_driver_on_another_node_is_placed_ended_and_missed(tmp_path: Path) -> None:
    # A process of its own, since a process has one connection to Ray and the other tests share theirs.
    script = Path(__file__).with_name("two_nodes.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "all held" in done.stdout.splitlines()
