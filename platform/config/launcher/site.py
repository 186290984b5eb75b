"""The parts that run our own code: the database's migrations, static files, worker, beat, supervisor and web server."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from celery import Celery

from config.home import ROOT
from config.launcher.part import Part

HEARTBEAT_FRESH_S = 30.0


@dataclass(frozen=True, slots=True)
class Site:
    """``home``: the data folder; ``env``: what every process of ours is given; ``needs``: the parts they wait for."""

    home: Path
    env: Mapping[str, str]
    broker: str
    needs: tuple[str, ...]
    ray: tuple[str, ...]
    listener: int
    host: str
    port: int

    def parts(self) -> list[Part]:
        ready = ("database", *self.needs)
        parts = [self._manage("database", "prepare", needs=self.needs, once=True, start_seconds=600)]
        if self._static_changed():
            parts.append(
                self._manage("static files", "collectstatic", "--no-input", "--clear", once=True, start_seconds=120)
            )
            ready = (*ready, "static files")
        return [*parts, self._worker(ready), self._beat(ready), self._supervisor(ready), self._web(ready)]

    def _manage(self, name: str, *words: str, **rest: object) -> Part:
        command = (sys.executable, str(ROOT / "manage.py"), *words)
        return Part(name=name, command=command, env=self.env, **rest)  # type: ignore[arg-type]

    def _worker(self, needs: tuple[str, ...]) -> Part:
        node = f"tuneyard-{hashlib.sha256(str(self.home).encode()).hexdigest()[:8]}@{os.uname().nodename}"
        return Part(
            name="worker",
            command=(
                *(sys.executable, "-m", "celery", "-A", "config", "worker", "-n", node, "-l", "WARNING"),
                *("--pool", "prefork", "--concurrency", "2", "--without-gossip", "--without-mingle"),
            ),
            env=self.env,
            needs=needs,
            follows=self.ray,
            probe=lambda: answering_worker(self.broker, node),
        )

    def _beat(self, needs: tuple[str, ...]) -> Part:
        schedule = self.home / "run" / "beat"
        began = time.time()
        return Part(
            name="beat",
            command=(sys.executable, "-m", "celery", "-A", "config", "beat", "-l", "WARNING", "-s", str(schedule)),
            env=self.env,
            needs=needs,
            probe=lambda: touched_since(schedule, began),
        )

    def _supervisor(self, needs: tuple[str, ...]) -> Part:
        alive = self.home / "run" / "supervise.alive"
        return self._manage(
            "supervisor",
            "supervise",
            needs=(*needs, *self.ray),
            follows=self.ray,
            prepare=lambda: alive.unlink(missing_ok=True),
            # Ray's core takes SIGTERM over in a process that connects, and ends it without a farewell.
            stop_signal=signal.SIGINT,
            probe=lambda: touched_since(alive, time.time() - HEARTBEAT_FRESH_S),
        )

    def _web(self, needs: tuple[str, ...]) -> Part:
        return Part(
            name="web",
            command=(sys.executable, "-m", "config.launcher.serve", str(self.listener)),
            env=self.env,
            needs=needs,
            pass_fds=(self.listener,),
            probe=lambda: living_web(self.host, self.port),
        )

    def _static_changed(self) -> bool:
        return fingerprint() != _read(self.home / "run" / "static.fingerprint")

    def remember_static(self) -> None:
        (self.home / "run" / "static.fingerprint").write_text(fingerprint())


def answering_worker(broker: str, node: str) -> str | None:
    """A detail when the Celery worker ``node`` answers a ping within half a second."""
    with Celery("probe", broker=broker) as app:
        answers = app.control.ping(destination=[node], timeout=0.5, limit=1)
    return "2 processes" if answers else None


def touched_since(path: Path, moment: float) -> str | None:
    candidates = [path, *path.parent.glob(path.name + ".*")]
    return "" if any(each.exists() and each.stat().st_mtime >= moment for each in candidates) else None


def living_web(host: str, port: int) -> str | None:
    """A detail when ``GET /livez`` answers 200."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(address, port, timeout=1)
    try:
        connection.request("GET", "/livez")
        return "" if connection.getresponse().status == 200 else None
    finally:
        connection.close()


def fingerprint() -> str:
    """Changes whenever collected static files may be out of date: our files' sizes and times, and the packages."""
    digest = hashlib.sha256()
    folders = [ROOT / "static", ROOT / "jobs" / "static", *sorted((ROOT / "platform").glob("*/static"))]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                info = path.stat()
                digest.update(f"{path} {info.st_size} {info.st_mtime_ns}\n".encode())
    for name in ("requirements.lock", "platform/config/settings.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
