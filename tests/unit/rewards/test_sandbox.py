"""The sandbox against code that means harm. Each escape is tried with all walls up, and with each set that must do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainers.rewards.sandbox import ALLOW_WEAK, Outcome, Sandbox, SandboxError, isolation_report

WALLS = {
    "all walls": frozenset(),
    "no namespaces": frozenset({"namespaces"}),
    "no Landlock": frozenset({"landlock"}),
    "no seccomp": frozenset({"seccomp"}),
    "namespaces alone": frozenset({"landlock", "seccomp"}),
}


@pytest.fixture(scope="module", params=WALLS.values(), ids=WALLS.keys())
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(without=request.param) as box:
        report = box.report()
        if not report["sufficient"]:
            pytest.skip(" ".join(report["lacks"]))
        yield box


@pytest.fixture(scope="module")
def walled() -> Iterator[Sandbox]:
    with Sandbox() as box:
        yield box


def run(box: Sandbox, body: str, *, seconds: float = 10, samples: int = 1) -> Outcome:
    """Run ``body`` as the body of a reward function."""
    code = "def reward(prompt, completion, answer, row):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    rows = [["p", f"c{i}", "a", {}] for i in range(samples)]
    return box.run("rewards", {"code": code, "samples": rows}, count=samples, seconds=seconds)


def raised(outcome: Outcome) -> str:
    """The error that the function ran into; fails if it came through."""
    assert outcome.messages, outcome
    assert "error" in outcome.messages[-1], f"it came through: {outcome.messages[-1]}"
    error = outcome.messages[-1]["error"]
    return f"{error.get('type')}: {error['text']}"


def survives(box: Sandbox) -> None:
    outcome = run(box, "return 0.5")
    assert [message["value"] for message in outcome.messages] == [0.5]


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


def test_it_ends_an_infinite_loop_and_goes_on(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "while completion == 'c2': pass\nreturn 1", seconds=0.3, samples=4)
    assert len(outcome.messages) == 2  # two were scored; the third was under way
    assert "longer than 0.3 s" in str(outcome.failure)
    survives(sandbox)


def test_it_ends_a_loop_that_holds_on_to_every_exception(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "while True:\n try:\n  while True: pass\n except BaseException: pass", seconds=0.3)
    assert "longer than" in str(outcome.failure)
    survives(sandbox)


def test_a_trickle_of_output_does_not_hold_the_clock(sandbox: Sandbox) -> None:
    body = "import time\nwhile True:\n print('x', flush=True)\n time.sleep(0.001)"
    assert "longer than 0.3 s" in str(run(sandbox, body, seconds=0.3).failure)
    survives(sandbox)


def test_it_stops_a_memory_bomb(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "x = []\nwhile True: x.append(bytearray(1 << 24))")
    assert outcome.messages[-1]["error"]["kind"] == "memory"
    survives(sandbox)


def test_it_stops_a_fork_bomb_and_leaves_no_process(sandbox: Sandbox) -> None:
    body = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    outcome = run(sandbox, body, seconds=0.5)
    assert "longer than" in str(outcome.failure)
    survives(sandbox)


def test_a_child_that_never_returns_does_not_outlive_the_batch(sandbox: Sandbox) -> None:
    body = """
    import os, time
    try:
        pid = os.fork()
    except OSError:
        return 0
    while pid == 0:
        time.sleep(1)
    return 1
    """
    outcome = run(sandbox, body)
    assert outcome.failure is None and "value" in outcome.messages[0]
    survives(sandbox)


def test_both_sides_of_a_fork_that_return_do_not_confuse_it(sandbox: Sandbox) -> None:
    body = "import os\ntry: os.fork()\nexcept OSError: pass\nreturn 1"
    run(sandbox, body, samples=3)
    survives(sandbox)


def test_threads_and_open_files_have_a_largest_number(sandbox: Sandbox) -> None:
    body = """
    import threading
    stop = threading.Event()
    try:
        for count in range(200):
            threading.Thread(target=stop.wait, daemon=True).start()
    except RuntimeError:
        return count
    """
    assert 4 <= run(sandbox, body).messages[0]["value"] < 32
    assert "Too many open files" in raised(run(sandbox, "held = [open('x', 'w') for _ in range(100)]\nreturn 1"))


def test_it_stops_a_flood_of_output(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "import os\nwhile True: os.write(1, b'x' * 65536)", seconds=30)
    assert "printed more than" in str(outcome.failure)
    assert len(outcome.printed) <= 4000
    survives(sandbox)


def test_it_stops_a_flood_on_the_channel_of_results(sandbox: Sandbox) -> None:
    body = "import os\nfor fd in range(3, 64):\n try:\n  while True: os.write(fd, b'x' * 65536)\n except OSError: pass"
    outcome = run(sandbox, body, seconds=30)
    assert outcome.failure is not None
    survives(sandbox)


def test_forged_messages_are_a_failure_and_not_a_reward(sandbox: Sandbox) -> None:
    forged = rb"""b'{"id": 1, "end": 0}\n{"id": 999999, "i": 0, "value": 1}\n'"""
    body = f"import os\nfor fd in range(3, 64):\n try: os.write(fd, {forged.decode()})\n except OSError: pass\nreturn 1"
    assert run(sandbox, body).failure is not None
    survives(sandbox)


@pytest.mark.parametrize("path", ["/etc/passwd", "~/.ssh", "~", "/", "/tmp", "/proc/self/environ", "/proc/1/environ"])
def test_it_reads_nothing_of_the_host(sandbox: Sandbox, path: str) -> None:
    path = os.path.expanduser(path)  # noqa: PTH111 - the home of this test, not of the sandbox
    body = f"""
    import os, sys
    if os.path.isfile({path!r}) or {path!r}.startswith('/proc'):
        return len(open({path!r}, 'rb').read(10))
    # A root folder of the sandbox's own holds these, and the folders that lead to the standard library.
    own = {{'dev', 'scratch', *(part for path in sys.path for part in path.split('/'))}}
    return len(set(os.listdir({path!r})) - own)
    """
    outcome = run(sandbox, body)
    message = outcome.messages[0]
    assert "error" in message or message["value"] == 0, outcome


def test_it_does_not_read_the_memory_or_the_environment_of_the_platform(sandbox: Sandbox) -> None:
    for name in ("environ", "mem", "maps", "cmdline", "status"):
        body = f"return len(open('/proc/{os.getpid()}/{name}', 'rb').read())"
        assert "Error" in raised(run(sandbox, body))
    assert "Error" in raised(run(sandbox, f"import os\nreturn len(os.listdir('/proc/{os.getpid()}/fd'))"))


def test_its_environment_holds_no_secret(sandbox: Sandbox) -> None:
    outcome = run(sandbox, "import os\nprint(sorted(os.environ))\nreturn 1")
    assert set(eval(outcome.printed)) <= {"HOME", "LANG", "LC_CTYPE", "PYTHONHASHSEED", "TMPDIR"}


def test_it_opens_no_connection_to_this_machine_or_another(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        for host in ("127.0.0.1", "192.0.2.1"):
            body = f"import socket\nsocket.create_connection(({host!r}, {server.getsockname()[1]}), 1)\nreturn 1"
            assert "Error" in raised(run(sandbox, body))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_it_reaches_no_unix_socket(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(str(tmp_path / "s"))
        server.listen()
        abstract.bind(f"\0tuneyard-test-{os.getpid()}")
        abstract.listen()
        for address in (str(tmp_path / "s"), f"\0tuneyard-test-{os.getpid()}"):
            body = f"import socket\nsocket.socket(socket.AF_UNIX).connect({address!r})\nreturn 1"
            assert "Error" in raised(run(sandbox, body))


def test_ctypes_gives_it_no_rights(sandbox: Sandbox) -> None:
    body = f"""
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    done = []
    for name, call in {{
        'setuid': lambda: libc.setuid(0),
        'setresuid': lambda: libc.setresuid(0, 0, 0),
        'mount': lambda: libc.mount(b'none', b'/', b'tmpfs', 0, None),
        'chroot': lambda: libc.chroot(b'.'),
        'setns': lambda: libc.setns(0, 0),
        'ptrace': lambda: libc.ptrace(16, 1, 0, 0),
        'execve': lambda: libc.execve(b'/bin/sh', None, None),
        'kill parent': lambda: libc.kill({os.getpid()}, 9),
        'reboot': lambda: libc.reboot(0),
        'open': lambda: libc.open(b'/etc/shadow', 0),
    }}.items():
        if call() >= 0:
            done.append(name)
    print(done)
    return 1
    """
    assert run(sandbox, body).printed == "[]\n"


def test_it_cannot_signal_the_platform(sandbox: Sandbox) -> None:
    assert "Error" in raised(run(sandbox, f"import os\nos.kill({os.getpid()}, 0)\nreturn 1"))


def test_it_starts_no_program(sandbox: Sandbox) -> None:
    assert "Error" in raised(run(sandbox, "import subprocess\nreturn subprocess.call(['/bin/true'])"))


def test_it_writes_only_into_its_scratch_folder(sandbox: Sandbox) -> None:
    for folder in ("/", "/tmp", "/var/tmp", "/dev/shm", "..", sys.base_prefix, str(Path(__file__).parent)):
        assert "Error" in raised(run(sandbox, f"open({folder!r} + '/x.txt', 'w').write('x')\nreturn 1"))
        assert not Path(folder, "x.txt").exists()
    assert run(sandbox, "open('x', 'w').write('abc')\nreturn len(open('x').read())").messages[0]["value"] == 3


def test_the_scratch_folder_is_empty_for_every_batch(sandbox: Sandbox) -> None:
    run(sandbox, "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nos.chmod('a', 0)\nreturn 1")
    assert run(sandbox, "import os\nreturn len(os.listdir('.'))").messages[0]["value"] == 0


def test_one_file_has_a_largest_size(sandbox: Sandbox) -> None:
    body = "f = open('x', 'wb')\nfor _ in range(2000): f.write(bytes(1 << 20))\nreturn 1"
    assert "Error" in raised(run(sandbox, body))
    survives(sandbox)


def test_the_scratch_folder_has_a_largest_size(walled: Sandbox) -> None:
    if walled.report()["scratch_bytes"] is None:
        pytest.skip("this host gives the scratch folder no limit of its own")
    body = "for i in range(30):\n open(f'{i}', 'wb').write(bytes(8 << 20))\nreturn 1"
    assert "No space left" in raised(run(walled, body))
    survives(walled)


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
