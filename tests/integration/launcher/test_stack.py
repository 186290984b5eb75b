"""The whole product under its launcher: as it serves, as parts of it die, and as it goes away."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from config.home import ROOT
from config.launcher.processes import Ledger, ProcessId

BY_COMMAND = {
    "web": "config.launcher.serve",
    "worker": "celery -A config worker",
    "supervisor": "manage.py supervise",
    "ray": "ray.scripts.scripts",
}


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s"
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def processes_of(home: Path) -> list[ProcessId]:
    return [each for each, _ in Ledger(home / "run" / "processes.json").read()]


def part(home: Path, name: str) -> ProcessId:
    """The main process of a part, from the launcher's own list."""
    found = [
        each
        for each, number in Ledger(home / "run" / "processes.json").read()
        if number and each.alive() and BY_COMMAND[name] in " ".join(psutil.Process(each.pid).cmdline())
    ]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def test_the_running_product_answers_and_says_that_it_is_ready(stack):
    assert httpx.get(f"{stack.url}/livez").text == "ok\n"
    assert httpx.get(f"{stack.url}/readyz").json() == {"database": "ok", "broker": "ok"}
    # An orchestrator asks by a bare address, which is no name of the site.
    assert httpx.get(f"{stack.url}/livez", headers={"Host": "10.1.2.3"}).status_code == 200
    assert httpx.get(f"{stack.url}/", headers={"Host": "10.1.2.3"}).status_code == 400


def test_the_addresses_are_for_their_owner_alone(stack):
    path = stack.home / "endpoints.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {"PUBLIC_URL", "DATABASE_URL", "REDIS_URL", "RAY_ADDRESS", "RAY_AUTH_TOKEN"} <= json.loads(
        path.read_text()
    ).keys()


def test_a_command_in_another_terminal_reaches_the_same_database(stack):
    program = "from catalog.models import BaseModel; print(BaseModel.objects.filter(enabled=True).count())"
    assert int(stack.manage("shell", "-v", "0", "-c", program).stdout) >= 2


def test_a_second_launcher_on_the_same_data_is_refused_in_a_sentence(stack):
    second = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0"], env=stack.env, capture_output=True, text=True
    )
    assert second.returncode == 1
    assert re.search(
        rf"did not start\. The data folder .* is in use by a running launcher \(process {stack.process.pid}\)",
        second.stdout,
    )
    assert answers(f"{stack.url}/livez")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        inherited.pop(name, None)
    return inherited | {"TUNEYARD_HOME": str(tmp_path / "home")}


def launch(env: dict[str, str], output: Path) -> subprocess.Popen[bytes]:
    home = Path(env["TUNEYARD_HOME"])
    with output.open("wb") as stream:
        launcher = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0"],
            env=env,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    wait_for(
        lambda: launcher.poll() is not None or " is ready at " in output.read_text(),
        "the launcher's start",
        seconds=180,
    )
    assert launcher.poll() is None, output.read_text()
    assert (home / "endpoints.json").exists()
    return launcher


@pytest.mark.full
def test_parts_that_die_come_back_and_nothing_outlives_the_launcher(env, tmp_path, stack):
    home, output = tmp_path / "home", tmp_path / "up.out"
    launcher = launch(env, output)
    seen = set(processes_of(home))
    try:
        url = json.loads((home / "endpoints.json").read_text())["PUBLIC_URL"]
        part(home, "web").send(signal.SIGKILL)
        part(home, "worker").send(signal.SIGKILL)
        wait_for(lambda: output.read_text().count("ready again") == 2, "web's and the worker's return")
        assert answers(f"{url}/readyz"), "the site must come back on the same port"
        supervisor = part(home, "supervisor")
        part(home, "ray").send(signal.SIGKILL)
        wait_for(lambda: output.read_text().count("ready again") >= 4, "Ray's return, and that of who uses it")
        assert not supervisor.alive(), "a new Ray needs a new supervisor"
        seen.update(processes_of(home))

        launcher.kill()
        launcher.wait()
        launcher = launch(env, output)
        assert not [each for each in seen if each.alive()], "what the killed launcher left must be gone"
        seen.update(processes_of(home))
    finally:
        launcher.send_signal(signal.SIGINT)
        began = time.monotonic()
        code = launcher.wait(30)
    assert code == 0
    assert time.monotonic() - began < 17
    assert not [each for each in seen if each.alive()]
    assert not leftovers(home), "no process may outlive its launcher"
    assert not (home / "endpoints.json").exists()
    assert not (home / "run" / "runtime").exists()
    assert httpx.get(f"{stack.url}/readyz").status_code == 200, "another installation beside it goes on"
    assert stack.process.poll() is None


def leftovers(home: Path) -> list[str]:
    """Processes whose environment says that they belong to this data folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TUNEYARD_HOME") == str(home):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
