"""A sandbox from its start to its end: values in order, batches apart from each other, and what a host must give it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jailed import raised, run, survives

from trainers.rewards.sandbox import ALLOW_WEAK, Sandbox, SandboxError, isolation_report


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until(condition: object, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def test_it_returns_a_value_per_sample_in_order(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "return int(completion[1:])", samples=300)
    assert [message["value"] for message in outcome.messages] == [float(i) for i in range(300)]
    assert outcome.failure is None


def test_the_scratch_folder_is_empty_for_every_batch(sandbox: Sandbox) -> None:
    run(sandbox, "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nos.chmod('a', 0)\nreturn 1")
    assert run(sandbox, "import os\nreturn len(os.listdir('.'))").messages[0]["value"] == 0


def test_a_folder_too_deep_to_clear_does_not_reach_the_next_batch(walled: Sandbox) -> None:
    body = "import os\nfor _ in range(900):\n os.mkdir('deep' * 20)\n os.chdir('deep' * 20)\nreturn 1"
    run(walled, body)
    assert run(walled, "import os\nreturn len(os.listdir('.'))").messages[0]["value"] == 0


def test_nothing_of_a_batch_reaches_the_next(walled: Sandbox) -> None:
    body = """
    import itertools, math, threading
    math.pi = 3
    threading.Thread(target=lambda: [0 for _ in itertools.count()], daemon=True).start()
    return 1
    """
    run(walled, body)
    outcome = run(walled, "import math, threading\nreturn math.pi + 10 * (threading.active_count() - 1)")
    assert outcome.messages[0]["value"] == pytest.approx(3.14159265)


def test_chance_and_the_order_of_sets_are_the_same_in_every_worker() -> None:
    body = "import random\nprint(random.random(), list({'a', 'b', 'c', 'd', 'e', 'f'}))\nreturn 1"
    seen = set()
    for _ in range(2):
        with Sandbox() as box:
            seen.update(run(box, body).printed for _ in range(2))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os\nos._exit(0)", None),
        ("import os\nos._exit(3)", "exit code 3"),
        ("import os\nos.abort()", "SIG"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_a_process_that_ends_itself_gives_no_reward(walled: Sandbox, body: str, words: str | None) -> None:
    outcome = run(walled, body)
    assert outcome.messages == []
    assert words is None or words in str(outcome.failure)
    survives(walled)


def test_leaving_by_sys_exit_is_an_error_like_any_other(walled: Sandbox) -> None:
    assert raised(run(walled, "import sys\nsys.exit(1)")) == "SystemExit: 1"


@pytest.mark.parametrize(
    "module", ["json", "re", "math", "hashlib", "fractions", "difflib", "statistics", "ast", "zlib"]
)
def test_the_usual_modules_can_be_imported(sandbox: Sandbox, module: str) -> None:
    assert run(sandbox, f"import {module}\nreturn 1").messages[0].get("value") == 1


def test_modules_of_the_platform_cannot_be_imported(walled: Sandbox) -> None:
    for module in ("trainers", "torch", "pydantic", "pip"):
        assert "ModuleNotFoundError" in raised(run(walled, f"import {module}\nreturn 1"))


def test_closing_leaves_no_process_and_no_folder() -> None:
    box = Sandbox()
    run(box, "return 1")
    worker = box._worker
    assert worker is not None
    children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()
    assert children
    box.close()
    assert not Path(worker.folder).exists()
    assert not any(alive(int(pid)) for pid in [worker.process.pid, *children])


def test_the_worker_ends_when_the_platform_is_killed_in_the_middle_of_a_batch() -> None:
    script = textwrap.dedent("""
        import sys, threading
        from trainers.rewards.sandbox import Sandbox
        box = Sandbox()
        box.report()
        print(box._worker.process.pid, box._worker.folder, flush=True)
        code = "def reward(prompt, completion, answer, row):\\n while True: pass"
        box.run("rewards", {"code": code, "samples": [["", "", "", {}]]}, count=1, seconds=60)
    """)
    root = Path(__file__).parents[3]
    process = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    keeper, folder = process.stdout.readline().split()
    tree = f"/proc/{keeper}/task/{keeper}/children"
    server = Path(tree).read_text().split()[0]
    assert until(lambda: Path(f"/proc/{server}/task/{server}/children").read_text().split())
    task = Path(f"/proc/{server}/task/{server}/children").read_text().split()[0]
    process.kill()
    process.wait()
    process.stdout.close()
    try:
        assert until(lambda: not any(alive(int(pid)) for pid in (keeper, server, task)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_it_refuses_to_run_where_nothing_walls_the_code_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(without=frozenset({"namespaces", "landlock", "seccomp"})) as box:
        report = box.report()
        assert not report["sufficient"] and report["holds"] == {"files": False, "network": False, "processes": False}
        assert any("network" in sentence for sentence in report["lacks"])
        with pytest.raises(SandboxError, match="cannot isolate"):
            run(box, "return 1")
        monkeypatch.setenv(ALLOW_WEAK, "1")
        assert run(box, "return 1").messages[0]["value"] == 1


def test_the_report_says_what_holds_and_names_the_walls() -> None:
    report = isolation_report()
    assert set(report["holds"]) == {"files", "network", "processes"}
    assert report["sufficient"] == all(report["holds"].values())
    for what, held in report["holds"].items():
        assert not held or report["walls"][what]


def test_a_worker_that_cannot_start_says_so() -> None:
    with pytest.raises(SandboxError, match="does not start"):
        Sandbox(python="/bin/false").report()
    with pytest.raises(SandboxError, match="does not start"):
        Sandbox(python="/nowhere/python").report()


@pytest.fixture(scope="module")
def ordinary_user_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox started by an ordinary user, with a copy of the interpreter which that user may reach."""
    if os.getuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    prefix = Path(f"/var/tmp/tuneyard-test-python-{os.getpid()}")
    library = Path(sysconfig.get_path("stdlib"))
    try:
        ignored = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib", "__pycache__", "*.a", "config-*")
        shutil.copytree(library, prefix / "lib" / library.name, ignore=ignored)
        (prefix / "bin").mkdir()
        shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / "python3")
        for shared in Path(sys.base_prefix, "lib").glob("libpython3*.so*"):
            shutil.copy(shared, prefix / "lib" / shared.name)
        with Sandbox(python=str(prefix / "bin" / "python3"), user=65534) as box:
            yield box
    finally:
        shutil.rmtree(prefix, ignore_errors=True)


def test_it_holds_for_an_ordinary_user_too(ordinary_user_box: Sandbox) -> None:
    report = ordinary_user_box.report()
    assert report["user_id"] != 0
    if not report["sufficient"]:
        pytest.skip(" ".join(report["lacks"]))
    survives(ordinary_user_box)
    for body in (
        "open('/etc/passwd').read()\nreturn 1",
        "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)\nreturn 1",
        "open('../x', 'w')\nreturn 1",
        "import os\nos.listdir('/proc')\nreturn 1",
        "import os\nos.setuid(0)\nreturn 1",
    ):
        assert "Error" in raised(run(ordinary_user_box, body))
    assert "longer than" in str(run(ordinary_user_box, "while True: pass", seconds=0.3).failure)
    survives(ordinary_user_box)


@pytest.mark.parametrize("rights", ["-sys_admin", "-all"])
def test_it_holds_for_root_without_the_right_to_namespaces(rights: str, tmp_path: Path) -> None:
    """As in a container: root, but with few capabilities, or none."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    script = textwrap.dedent("""
        import json
        from trainers.rewards.sandbox import Sandbox
        bodies = ["open('x', 'w'); return 1", "return len(open('/etc/passwd').read())", "import os; return os.fork()"]
        with Sandbox() as box:
            report = box.report()
            for body in bodies if report["sufficient"] else []:
                code = f"def reward(prompt): {body}"
                outcome = box.run("rewards", {"code": code, "samples": [["", "", "", {}]]}, count=1, seconds=10)
                print(json.dumps("value" in outcome.messages[0]))
            print(json.dumps(report))
    """)
    command = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", sys.executable, "-c", script]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *came_through, report = [json.loads(line) for line in done.stdout.splitlines()]
    if not report["sufficient"]:
        pytest.skip(" ".join(report["lacks"]))
    assert came_through[:2] == [True, False]
    assert report["holds"] == {"files": True, "network": True, "processes": True} and report["lacks"]
