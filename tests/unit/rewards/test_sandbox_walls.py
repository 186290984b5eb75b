"""Code that reaches for what lies outside: files, secrets, the network, rights, programs, other processes."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from jailed import raised, run

from trainers.rewards.sandbox import Sandbox


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
