"""Which parts this installation runs itself, and the addresses by which they find each other."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from config.home import ROOT, celery_broker
from config.launcher.part import Part
from config.launcher.postgres import Postgres
from config.launcher.ray import Ray, free_port
from config.launcher.site import Site
from config.launcher.valkey import Valkey

# The kernel takes 107 characters for a unix socket; Ray puts its own about 65 below this folder.
LONGEST_RUNTIME_PATH = 36


@dataclass(slots=True)
class Stack:
    """``env`` is what every process of ours is given; ``endpoints`` the part of it that is written to the home."""

    home: Path
    runtime: Path
    listener: socket.socket
    url: str
    env: dict[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    site: Site | None = None
    ray: Ray | None = None

    def write_endpoints(self) -> None:
        path = self.home / "endpoints.json"
        draft = path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(self.env, indent=1))
        draft.replace(path)

    def forget_endpoints(self) -> None:
        (self.home / "endpoints.json").unlink(missing_ok=True)


def plan(*, home: Path, runtime: Path, listener: socket.socket, host: str, environment: Mapping[str, str]) -> Stack:
    """The parts to run: each embedded one unless its address is given in the environment."""
    port = int(listener.getsockname()[1])
    url = environment.get("PUBLIC_URL") or f"http://{_shown(host)}:{port}"
    stack = Stack(home=home, runtime=runtime, listener=listener, url=url)
    stack.env["PUBLIC_URL"] = url
    if not environment.get("ALLOWED_HOSTS"):
        stack.env["ALLOWED_HOSTS"] = ",".join(host_names(url, host))
    broker = environment.get("REDIS_URL", "")
    needs: list[str] = []
    if not broker:
        valkey = Valkey(home / "valkey", runtime / "v.sock")
        broker = stack.env["REDIS_URL"] = valkey.url
        stack.parts.append(valkey.part())
        needs.append("valkey")
    if not environment.get("RAY_ADDRESS"):
        stack.ray = Ray(runtime / "r", free_port(), secrets.token_hex(32))
        stack.env.update(stack.ray.env)
        stack.parts.append(stack.ray.part())
    if not environment.get("DATABASE_URL"):
        postgres = Postgres(home / "postgres", runtime / "pg")
        stack.env["DATABASE_URL"] = postgres.url
        stack.parts.append(postgres.part())
        needs.append("postgres")
    stack.site = Site(
        home=home,
        env={
            **stack.env,
            "TUNEYARD_HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]),
            "PYTHONUNBUFFERED": "1",
        },
        broker=celery_broker(broker),
        needs=tuple(needs),
        ray=("ray",) if stack.ray else (),
        listener=listener.fileno(),
        host=host,
        port=port,
    )
    stack.parts.extend(stack.site.parts())
    return stack


def host_names(url: str, host: str) -> list[str]:
    """The names by which the site may be called: loopback, the public address's, and that of a given interface."""
    names = ["localhost", "127.0.0.1", "[::1]", urlsplit(url).hostname or "localhost"]
    if host not in ("0.0.0.0", "::"):
        names.append(f"[{host}]" if ":" in host else host)
    return list(dict.fromkeys(names))


def make_runtime(home: Path) -> tuple[Path, int]:
    """A new short-named private folder for sockets, and a lock on it that keeps cleaners of old files away.

    The path is noted in the home, for the start that follows a launcher that was killed.
    """
    note = home / "run" / "runtime"
    forget_runtime(home)
    # Not XDG_RUNTIME_DIR: it goes when its user signs out, and the product may run on.
    for base in (tempfile.gettempdir(), "/tmp"):
        if len(base) <= LONGEST_RUNTIME_PATH - len("/ty-xxxxxxxx") and os.access(base, os.W_OK | os.X_OK):
            break
    runtime = Path(tempfile.mkdtemp(prefix="ty-", dir=base))
    # Under root the database's own user passes through to its socket.
    runtime.chmod(0o711 if os.geteuid() == 0 else 0o700)
    note.write_text(str(runtime))
    descriptor = os.open(runtime, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return runtime, descriptor


def forget_runtime(home: Path) -> None:
    note = home / "run" / "runtime"
    with contextlib.suppress(OSError):
        runtime = Path(note.read_text().strip())
        if runtime.name.startswith("ty-") and runtime.is_dir() and runtime.stat().st_uid == os.geteuid():
            shutil.rmtree(runtime, ignore_errors=True)
        note.unlink()


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
