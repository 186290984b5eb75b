"""The launcher on parts that are small shell programs: real processes, and no waiting for more than they take."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from config.launcher import processes, run
from config.launcher.part import LOG_BYTES, Part, rotate, start
from config.launcher.problems import Problem
from config.launcher.run import Launcher, State
from config.launcher.screen import Screen


@pytest.fixture
def screen() -> Screen:
    return Screen(io.StringIO())


@pytest.fixture
def launch(tmp_path: Path, screen: Screen):
    """Make a launcher of parts; whatever it still runs at the end of the test is ended."""
    made: list[Launcher] = []

    def build(*parts: Part) -> Launcher:
        made.append(
            Launcher(parts, logs=tmp_path / "logs", ledger=processes.Ledger(tmp_path / "processes.json"), screen=screen)
        )
        return made[-1]

    yield build
    for launcher in made:
        launcher.stop_asked = 10
        launcher.stop()


def shell(name: str, script: str, **rest) -> Part:
    return Part(name=name, command=("/bin/sh", "-c", script), cwd=Path("/"), **rest)


def text(screen: Screen) -> str:
    assert isinstance(screen.stream, io.StringIO)
    return screen.stream.getvalue()


def tick_until(launcher: Launcher, condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        launcher.tick()
        time.sleep(0.005)


def test_a_part_starts_when_those_it_needs_are_ready(launch, tmp_path, screen):
    order = tmp_path / "order"
    launcher = launch(
        shell("site", f"echo site >> {order}; exec sleep 100", needs=("step", "store")),
        shell("step", f"echo step >> {order}", once=True, needs=("store",)),
        shell(
            "store",
            f"echo store >> {order}; touch {tmp_path}/up; exec sleep 100",
            probe=lambda: "here" if (tmp_path / "up").exists() else None,
        ),
    )
    assert launcher.start()
    tick_until(launcher, lambda: order.read_text() == "store\nstep\nsite\n")
    assert [line.split()[:2] for line in text(screen).splitlines()] == [
        ["store", "ready"],
        ["step", "done"],
        ["site", "ready"],
    ]


def test_a_part_that_fails_at_the_start_is_shown_with_its_last_lines(launch):
    launcher = launch(shell("store", "exec sleep 100"), shell("site", "echo the reason; exit 3", probe=lambda: None))
    with pytest.raises(Problem, match=r"site ended with exit code 3\. The last lines of .*site\.log:\n    the reason"):
        launcher.start()


def test_a_part_that_does_not_get_ready_in_time_is_a_problem(launch):
    launcher = launch(shell("site", "exec sleep 100", probe=lambda: None, start_seconds=0.1))
    with pytest.raises(Problem, match="site was not ready within 0 s"):
        launcher.start()


def test_a_probe_that_raises_means_not_ready(launch, tmp_path):
    ready = tmp_path / "ready"
    launcher = launch(
        shell("site", f"sleep 0.1; touch {ready}; exec sleep 100", probe=lambda: str(ready.stat().st_size))
    )
    assert launcher.start()


def test_a_part_that_dies_is_started_again(launch, monkeypatch, screen):
    monkeypatch.setattr(run, "BACKOFF_S", (0.01,))
    launcher = launch(shell("site", "exec sleep 100"))
    launcher.start()
    first = launcher.slots["site"].child
    os.kill(first.pid, signal.SIGKILL)
    tick_until(launcher, lambda: launcher.slots["site"].starts == 2 and launcher.slots["site"].state is State.READY)
    assert launcher.slots["site"].child.pid != first.pid
    assert "site was ended by SIGKILL; starting it again in 0.01 s" in text(screen)
    assert "ready again" in text(screen)


def test_what_a_dead_part_leaves_behind_is_ended_before_it_starts_again(launch, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "BACKOFF_S", (0.01,))
    note = tmp_path / "pid"
    launcher = launch(
        shell("site", f"sleep 100 & echo $! > {note}; wait", probe=lambda: note.read_text().strip() or None)
    )
    launcher.start()
    worker = processes.identify(int(note.read_text()))
    assert worker is not None
    os.kill(launcher.slots["site"].child.pid, signal.SIGKILL)
    tick_until(launcher, lambda: launcher.slots["site"].starts == 2)
    assert not worker.alive()


def test_a_part_that_keeps_dying_is_reported_with_its_last_lines(launch, monkeypatch, screen, tmp_path):
    monkeypatch.setattr(run, "BACKOFF_S", (0.0, 0.0, 0.0, 0.0, 0.0, 33.0))
    launcher = launch(shell("site", f"test -e {tmp_path}/fail || exec sleep 100; echo out of luck; exit 1"))
    launcher.start()
    (tmp_path / "fail").touch()
    os.kill(launcher.slots["site"].child.pid, signal.SIGKILL)
    tick_until(launcher, lambda: len(launcher.slots["site"].deaths) == 5)
    assert "site has died 5 times within a minute; it is tried again in 33 s." in text(screen)
    assert text(screen).endswith("    out of luck\n")
    launcher.tick()
    assert launcher.slots["site"].child is None


def test_a_part_that_follows_another_gets_a_fresh_start_with_it(launch, monkeypatch):
    monkeypatch.setattr(run, "BACKOFF_S", (0.01,))
    launcher = launch(shell("ray", "exec sleep 100"), shell("worker", "exec sleep 100", follows=("ray",)))
    launcher.start()
    worker = launcher.slots["worker"].child
    os.kill(launcher.slots["ray"].child.pid, signal.SIGKILL)
    tick_until(launcher, lambda: launcher.slots["worker"].starts == 2 and launcher.slots["worker"].satisfied)
    assert not worker.id.alive()
    assert not launcher.slots["worker"].deaths


def test_parts_are_stopped_before_those_they_need(launch, tmp_path):
    order = tmp_path / "order"
    script = "trap 'echo {0} >> {1}; exit' TERM; touch {2}/{0}; while :; do sleep 0.01; done"
    launcher = launch(
        *(
            shell(
                name,
                script.format(name, order, tmp_path),
                needs=needs,
                probe=lambda name=name: "" if (tmp_path / name).exists() else None,
            )
            for name, needs in (("store", ()), ("queue", ("store",)), ("site", ("queue",)))
        )
    )
    launcher.start()
    launcher.stop()
    assert order.read_text().split() == ["site", "queue", "store"]


def test_a_part_that_will_not_stop_is_killed_with_all_it_started(launch, tmp_path):
    note = tmp_path / "pid"
    program = f"trap '' TERM; setsid sleep 100 & echo $! > {note}; while :; do sleep 0.05; done"
    launcher = launch(
        shell("site", program, stop_seconds=0.1, probe=lambda: note.read_text().strip() or None),
    )
    launcher.start()
    grandchild = processes.identify(int(note.read_text()))
    assert grandchild is not None
    began = time.monotonic()
    launcher.stop()
    assert time.monotonic() - began < 5
    assert not grandchild.alive()
    assert not (tmp_path / "processes.json").exists()


def test_a_stop_during_the_start_ends_the_start(launch):
    launcher = launch(shell("site", "exec sleep 100", probe=lambda: None))
    launcher.on_signal(signal.SIGINT, None)
    assert launcher.start() is False


def test_a_child_dies_with_the_process_that_started_it(tmp_path):
    note = tmp_path / "pid"
    program = (
        "import sys, time; from pathlib import Path; from config.launcher.part import Part, Child;"
        "child = Child(Part(name='p', command=('/bin/sleep', '100'), cwd=Path('/')), Path(sys.argv[1]) / 'log');"
        "Path(sys.argv[1], 'pid').write_text(str(child.pid)); time.sleep(100)"
    )

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=env)
    deadline = time.monotonic() + 20
    while not (note.exists() and note.read_text()):
        assert parent.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    child = processes.identify(int(note.read_text()))
    assert child is not None
    parent.kill()
    parent.wait()
    assert processes.wait_gone([child], 5)


def test_a_log_that_has_grown_large_is_put_aside(tmp_path):
    log = tmp_path / "web.log"
    for number in range(5):
        log.write_bytes(bytes([65 + number]) * LOG_BYTES)
        rotate(log)
        assert not log.exists()
    kept = {path.name: path.read_bytes()[:1] for path in tmp_path.iterdir()}
    assert kept == {"web.log.1": b"E", "web.log.2": b"D", "web.log.3": b"C"}


def test_only_the_last_run_of_a_log_is_shown(tmp_path):
    (tmp_path / "site.log").write_text("an old line\n")
    with pytest.raises(Problem) as caught:
        start(shell("site", "echo a new line; exit 1", probe=lambda: None), tmp_path)
    assert "a new line" in str(caught.value) and "an old line" not in str(caught.value)
