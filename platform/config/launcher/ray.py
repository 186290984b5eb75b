"""A local Ray head that only this machine, and only who holds its token, can reach.

Ray listens on every interface and runs whatever code it is sent, so two things are set for each process of ours: a
token (RAY_AUTH_MODE), and the switch by which Ray stays on the loopback address, made for other systems but honored on
all. On the loopback the address also stays right when the machine changes networks.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from config.launcher.part import Part

OBJECT_STORE_BYTES = 200 * 2**20
# A node whose processes are gone is called dead after five seconds; by Ray's defaults it takes fifteen. How long a node
# may take to answer stays Ray's: a busy one must not be taken for dead.
HEALTH = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}


@dataclass(frozen=True, slots=True)
class Ray:
    """``folder``: Ray's session files, a path of at most 40 characters; ``token``: secret of this head."""

    folder: Path
    port: int
    token: str
    cpus: int = field(default_factory=lambda: usable_cpus())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to reach this Ray."""
        return {"RAY_ADDRESS": self.address, **self.keys}

    @property
    def keys(self) -> dict[str, str]:
        """The same without the address, which the head itself must not be given."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def part(self) -> Part:
        return Part(
            name="ray",
            command=(
                sys.executable,
                "-c",
                "from ray.scripts.scripts import main; main()",
                "start",
                "--head",
                "--block",
                f"--port={self.port}",
                f"--temp-dir={self.folder}",
                f"--num-cpus={self.cpus}",
                f"--object-store-memory={OBJECT_STORE_BYTES}",
                "--min-worker-port=0",
                "--max-worker-port=0",
                "--include-dashboard=false",
                "--include-log-monitor=false",
                "--disable-usage-stats",
                f"--system-config={json.dumps(HEALTH)}",
            ),
            env=self.keys,
            prepare=self.prepare,
            probe=self.probe,
            stop_seconds=5.0,
            start_seconds=90.0,
        )

    def prepare(self) -> None:
        # Sessions of a head that is gone: their sockets and files serve nobody.
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def probe(self) -> str | None:
        os.environ.update(self.keys)
        return f"{self.cpus} CPU{'s' if self.cpus != 1 else ''}" if alive_nodes(self.address) else None

    def keep_logs(self, logs: Path) -> None:
        """Put the last session's logs where they outlive the session's folder."""
        session = self.folder / "session_latest" / "logs"
        if session.is_dir():
            shutil.rmtree(logs, ignore_errors=True)
            shutil.copytree(session, logs, ignore_dangling_symlinks=True)


def alive_nodes(address: str) -> int:
    """How many nodes of the Ray cluster at ``address`` are alive; raises when its head does not answer soon."""
    host, _, port = address.rpartition(":")
    # Ray's own client would try for most of a minute where nobody listens.
    socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    # Imported late: Ray reads its part of the environment once, at import.
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]

    nodes = GcsClient(address=address).get_all_node_info(timeout=1)
    return sum(node.state == GcsNodeInfo.GcsNodeState.ALIVE for node in nodes.values())


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
