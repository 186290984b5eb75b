"""Start, supervision and task loop of a sandbox worker.

Three processes, so that none of ours ever shares one with the code of users:

- the *keeper* builds the walls, holds the lifeline to the platform, and kills everything when that is cut;
- the *server*, its child, has lost its rights for good; it reads tasks and forks
- one *task* process per batch, under limits and the system-call filter, which ends with the batch: nothing a function
  leaves behind (threads, globals, files) reaches the next one.

Messages are JSON lines. In: a header ``{id, task, memory, seconds, size}`` and ``size`` bytes of JSON payload; while a
task runs also ``{stop: id}``, at which it is killed. Out, on two channels: the task's own lines, and the server's
``{id, started}`` and ``{id, end}`` with the exit code (negative: the signal). The task's process does not hold the
server's channel, so that no code of a user can pretend to have started or ended.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
from typing import Any

from .isolate import Isolation
from .tasks import TASKS

# Loaded before the walls are up: parts of these need libraries that lie outside of them, and later forks get them free.
PRELOADED = (
    "array", "ast", "base64", "bisect", "calendar", "collections", "copy", "csv", "ctypes", "dataclasses",
    "datetime", "decimal", "difflib", "encodings.ascii", "encodings.gb18030", "encodings.idna", "encodings.latin_1",
    "encodings.unicode_escape", "enum", "fractions", "functools", "hashlib", "heapq", "hmac", "html", "html.parser",
    "io", "itertools", "json", "keyword", "math", "numbers", "operator", "random", "re", "secrets", "statistics",
    "string", "textwrap", "threading", "time", "tokenize", "traceback", "typing", "unicodedata", "urllib.parse",
    "uuid", "xml.etree.ElementTree", "zlib",
)  # fmt: skip


def main() -> None:
    """Entry of the keeper; the one argument is JSON: ``{folder, lifeline, control, without, tools, packages}``.

    ``tools`` are modules of our own to load, and ``packages`` a folder of links to the packages they need.
    """
    config = json.loads(sys.argv[1])
    if config["packages"]:
        sys.path.append(config["packages"])
    for name in PRELOADED:
        __import__(name)
    isolation = Isolation(config["folder"], frozenset(config["without"]), config["packages"])
    for name in config["tools"]:
        TASKS.update(importlib.import_module(f".{name}", __package__).TASKS)
    isolation.enclose()
    server = os.fork()
    if server == 0:
        os.close(config["lifeline"])
        _guarded(lambda: _serve(isolation, config["control"]))
    for descriptor in (0, 1, 2, config["control"]):
        os.close(descriptor)
    handle = os.pidfd_open(server)
    # Nothing is ever written to the lifeline: it becomes readable when the platform's end is closed.
    select.select([config["lifeline"], handle], [], [])
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    os._exit(0)


def _guarded(body: Any) -> None:
    """Run the body of a forked child; whatever happens, the child never returns into its parent's code."""
    try:
        body()
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}"[:2000].encode(errors="replace"))
    finally:
        os._exit(70)


def _serve(isolation: Isolation, control: int) -> None:
    isolation.confine()
    ready, answer = os.pipe()
    _fork_task(isolation, {"id": 0, "task": "trial", "memory": 1 << 30, "seconds": 10}, b"{}", answer, control)
    os.close(answer)
    with open(ready, "rb") as lines:
        messages = [json.loads(line) for line in lines]
    said: dict[str, Any] = {}
    for message in messages:
        said.update(message)
    _send({"ready": isolation.report(said["tried"], said["seccomp"], said["lacks"])}, control)
    while header := _line():
        task = json.loads(header)
        if "stop" in task:  # it had ended by itself
            continue
        payload = _exactly(task["size"])
        code = _fork_task(isolation, task, payload, 1, control)
        _send({"id": task["id"], "end": code, "clean": _clean()}, control)


def _line() -> bytes:
    """One line of standard input, read byte by byte: what follows it must stay in the pipe, where it can be seen."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return bytes(line)


def _exactly(size: int) -> bytes:
    payload = bytearray()
    while len(payload) < size:
        data = os.read(0, min(size - len(payload), 1 << 20))
        if not data:  # the platform has gone in the middle of a task
            os._exit(0)
        payload += data
    return bytes(payload)


def _fork_task(isolation: Isolation, task: dict[str, Any], payload: bytes, out: int, control: int) -> int:
    child = os.fork()
    if child == 0:
        os.close(control)
        _guarded(lambda: _run(isolation, task, payload, out))
    if task["id"]:
        _send({"id": task["id"], "started": True}, control)
    handle = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([handle, 0], [], [])
        if handle in ready:
            break
        line = _line()
        os.kill(child, signal.SIGKILL)
        if not line or json.loads(line).get("stop") != task["id"]:
            os._exit(71)  # the platform has gone, or speaks out of turn
    os.close(handle)
    _, status = os.waitpid(child, 0)
    if os.getpid() == 1:
        _sweep()
    return os.waitstatus_to_exitcode(status)


def _sweep() -> None:
    """As the first process of a namespace: end whatever the task has left in it. Never called outside of one."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _run(isolation: Isolation, task: dict[str, Any], payload: bytes, out: int) -> None:
    """One task, in its own process: its standard output becomes the channel of prints, ``out`` that of results."""
    channel = os.dup(out)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    content = json.loads(payload)
    isolation.lacks = []
    isolation.limit(task["memory"], task["seconds"])
    if task["task"] == "trial":
        _send({"seccomp": isolation.seccomp_works, "lacks": isolation.lacks}, channel)
    TASKS[task["task"]](content, lambda message: _send({"id": task["id"], **message}, channel))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed by the code of a user
            continue


def _send(message: dict[str, Any], descriptor: int) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


def _clean() -> bool:
    """Empty the scratch folder, in which the server stands; if something resists (False), the worker is replaced."""
    pending = ["."]
    folders = []
    try:
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        os.chmod(entry.path, 0o700)
                        pending.append(entry.path)
                        folders.append(entry.path)
                    else:
                        os.unlink(entry.path)
        for folder in reversed(folders):
            os.rmdir(folder)
    except OSError:
        return False
    return True
