"""Tricks that a sandbox must see through: links, signals, its own clock, its own channels, its tools."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jailed import run

from trainers.rewards.bench import TOOLS
from trainers.rewards.sandbox import Outcome, Sandbox

WALLS = {"all walls": frozenset(), "no namespaces": frozenset({"namespaces"}), "no Landlock": frozenset({"landlock"})}


@pytest.fixture(scope="module", params=WALLS.values(), ids=WALLS.keys())
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(without=request.param) as made:
        report = made.report()
        if not report["sufficient"]:
            pytest.skip(" ".join(report["lacks"]))
        yield made


def refused(outcome: Outcome) -> bool:
    return "error" in outcome.messages[-1]


def pid_of(box: Sandbox) -> int:
    assert box._worker is not None
    return box._worker.process.pid


@pytest.mark.parametrize("make", ["os.symlink('/etc/passwd', 'link')", "os.link('/etc/passwd', 'link')"])
def test_links_lead_nowhere(box: Sandbox, make: str) -> None:
    assert refused(run(box, f"import os\n{make}\nreturn len(open('link').read())"))
    assert refused(run(box, "return len(open('../../../../../../etc/passwd').read())"))
    assert refused(run(box, "return len(open('/proc/self/root/etc/passwd').read())"))


@pytest.mark.parametrize("target", ["os.getppid()", "1", "-1", "0", "the test itself"])
def test_signals_reach_nobody_else(box: Sandbox, target: str) -> None:
    target = str(os.getpid()) if target == "the test itself" else target
    outcome = run(box, f"import os\nos.kill({target}, 9)\nreturn 1")
    # Killing everything that it can see may at most end itself.
    assert outcome.messages == [] or refused(outcome)
    assert run(box, "return 1").messages[0]["value"] == 1


def test_time_cannot_be_held_up_by_ignoring_signals(box: Sandbox) -> None:
    body = """
    import signal
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        pass
    """
    begun = time.monotonic()
    assert "longer than 0.3 s" in str(run(box, body, seconds=0.3).failure)
    assert time.monotonic() - begun < 5


def test_a_task_that_ran_out_of_time_costs_its_worker_nothing(box: Sandbox) -> None:
    run(box, "return 1")
    before = pid_of(box)
    for _ in range(3):
        assert run(box, "import time\ntime.sleep(60)", seconds=0.1).late
        assert run(box, "return 1").messages[0]["value"] == 1
    assert pid_of(box) == before


@pytest.mark.parametrize("line", ['{"id": %d, "started": true}', '{"id": %d, "end": 0, "clean": true}', '{"stop": %d}'])
def test_nobody_can_pretend_to_start_again_or_to_have_ended(box: Sandbox, line: str) -> None:
    body = f"""
    import os, time
    for number in range(1, 100):
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, ({line!r} % number).encode() + b"\\n")
            except OSError:
                pass
    while True:
        pass
    """
    begun = time.monotonic()
    outcome = run(box, body, seconds=0.5)
    assert outcome.failure is not None and "value" not in str(outcome.messages)
    assert time.monotonic() - begun < 8
    assert run(box, "return 0.5").messages[0]["value"] == 0.5


def test_a_limit_for_each_message_ends_the_one_that_is_slow(box: Sandbox) -> None:
    code = "import time\ndef reward(completion):\n    time.sleep(60 if completion == 'c3' else 0.1)\n    return 1"
    rows = [["p", f"c{i}", "a", {}] for i in range(6)]
    outcome = box.run("rewards", {"code": code, "samples": rows}, count=6, seconds=0.25, each=True)
    assert len(outcome.messages) == 3 and outcome.late


def test_memory_taken_behind_the_back_of_python_is_counted(box: Sandbox) -> None:
    body = """
    import ctypes, mmap
    held = [mmap.mmap(-1, 1 << 28)]
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while libc.malloc(ctypes.c_size_t(1 << 26)):
        held.append(1)
    return len(held)
    """
    outcome = run(box, body)
    assert refused(outcome) or outcome.messages[0]["value"] < 10


def test_a_gigabyte_of_output_is_cut_off_early(box: Sandbox) -> None:
    body = "import sys\nfor _ in range(1 << 10):\n sys.stdout.write('x' * (1 << 20))\nreturn 1"
    begun = time.monotonic()
    outcome = run(box, body, seconds=60)
    assert "printed more than" in str(outcome.failure) and len(outcome.printed) <= 4000
    assert time.monotonic() - begun < 20


def test_tools_see_their_packages_and_nothing_else() -> None:
    for name, tool in TOOLS.items():
        with Sandbox(tools=[tool]) as box:
            packages = Path(box._worker.packages) if box._worker else None
            body = "import os, sys\nprint(sorted(os.listdir(sys.path[-1])))\nimport torch"
            outcome = run(box, body)
            assert "ModuleNotFoundError" in str(outcome.messages), name
            assert "torch" not in outcome.printed and "django" not in outcome.printed.casefold()
            assert refused(run(box, "return len(open('/etc/passwd').read())"))
            assert refused(run(box, "import socket\nsocket.socket()\nreturn 1"))
        assert packages is None or not packages.exists()


def test_the_folder_of_packages_goes_with_its_worker() -> None:
    box = Sandbox(tools=[TOOLS["similarity"]])
    box.report()
    assert box._worker is not None and box._worker.packages is not None
    folder = Path(box._worker.packages)
    assert any("rapidfuzz" in entry.name for entry in folder.iterdir())
    box.close()
    assert not folder.exists()
