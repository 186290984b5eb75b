"""What must hold before anything is started: each failure is one sentence, and nothing is left half-started."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import psutil

from config.launcher.problems import Problem

LEAST_FREE_BYTES = 2 * 10**9
FIRST_PORT = 8000
PORTS_TRIED = 100
SUBFOLDERS = ("run", "logs", "storage", "work", "models", "mail", "uploads", "static")


def require_packages(names: Iterable[str]) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise Problem(
            f"{_words(missing)} {'is' if len(missing) == 1 else 'are'} not installed in this Python environment. "
            f"Run `make setup` and start again."
        )


def prepare_home(home: Path) -> None:
    """Make the data folder, with its own folders closed to other users."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Others may pass through to the database's socket user's files, and list nothing.
        home.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in SUBFOLDERS:
            folder = home / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
            draft = folder / f".writable.{os.getpid()}"
            draft.touch()
            draft.unlink()
    except OSError as error:
        raise Problem(
            f"The data folder {home} cannot be written: {error.filename or home}: {error.strerror}. "
            f"Give it to the user you start as, or choose another one with TUNEYARD_HOME."
        ) from error


def require_space(home: Path) -> None:
    free = shutil.disk_usage(home).free
    if free < LEAST_FREE_BYTES:
        raise Problem(
            f"Only {free / 1e9:.1f} GB are free on the disk of {home}; models, checkpoints and the database need at "
            f"least {LEAST_FREE_BYTES / 1e9:.0f} GB. Free some space, or choose another folder with TUNEYARD_HOME."
        )


def lock(home: Path) -> IO[str]:
    """Hold the data folder for as long as the returned file is open; the kernel lets go when this process dies."""
    stream = (home / "run" / "launcher.lock").open("a+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.seek(0)
        pid = stream.read().strip()
        stream.close()
        raise Problem(
            f"The data folder {home} is in use by a running launcher{f' (process {pid})' if pid else ''}. "
            f"Stop that one first, or choose another data folder with TUNEYARD_HOME."
        ) from error
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    return stream


def is_locked(home: Path) -> bool:
    """Whether a launcher runs on this data folder now."""
    try:
        with (home / "run" / "launcher.lock").open("r") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on ``port``, or on the first free one from FIRST_PORT; bound now, so that it stays ours."""
    if port is not None:
        return _bind(host, port)
    for candidate in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        try:
            return _bind(host, candidate)
        except _Busy:
            continue
    raise Problem(
        f"No port from {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1} is free on {host}. Name one: make up PORT=9000"
    )


class _Busy(Problem):
    pass


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise _Busy(
                f"Port {port} is in use{_holder(port)}. Stop that program, or choose another port: "
                f"make up PORT={port + 1 if port < 65535 else FIRST_PORT}"
            ) from error
        if error.errno == errno.EACCES:
            raise Problem(
                f"Port {port} may be opened by root only. Choose one above 1023, or put a proxy before it."
            ) from error
        raise Problem(f"The site cannot listen on {host}, port {port}: {error.strerror or error}.") from error
    return listener


def _holder(port: int) -> str:
    """The program that listens on a port, where this user may know."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return ""


def _words(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
