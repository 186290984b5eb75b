from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from config.launcher import processes
from config.launcher.processes import Ledger, ProcessId, Row


def test_a_family_holds_descendants_and_those_who_kept_the_session():
    table = {
        1: Row(parent=0, session=1, started=0),
        10: Row(parent=1, session=10, started=1),  # the part
        11: Row(parent=10, session=10, started=2),  # its child
        12: Row(parent=11, session=12, started=3),  # a grandchild with a session of its own
        13: Row(parent=1, session=10, started=4),  # lost its parent, kept the session
        14: Row(parent=13, session=14, started=5),  # a child of that one
        20: Row(parent=1, session=20, started=6),  # a stranger
    }
    assert {each.pid for each in processes.family([10], table)} == {10, 11, 12, 13, 14}


def test_a_family_outlives_its_head():
    table = {1: Row(0, 1, 0), 13: Row(parent=1, session=10, started=4), 14: Row(parent=13, session=14, started=5)}
    assert {each.pid for each in processes.family([10], table)} == {13, 14}


def test_a_later_process_with_the_same_number_is_not_taken_for_ours():
    me = processes.identify(os.getpid())
    assert me is not None and me.alive()
    assert not ProcessId(me.pid, me.started - 100).alive()


def test_a_process_that_ignores_the_request_to_end_is_killed():
    program = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    found = processes.identify(child.pid)
    assert found is not None
    processes.end([found], grace_s=0.1)
    assert child.wait(5) == -signal.SIGKILL


def test_what_a_killed_launcher_left_is_ended_with_its_descendants(tmp_path):
    script = "sleep 100 & echo $!; exec sleep 100"
    child = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    grandchild = processes.identify(int(child.stdout.readline()))
    head = processes.identify(child.pid)
    assert head is not None and grandchild is not None
    ledger = Ledger(tmp_path / "processes.json")
    ledger.write({(head, int(signal.SIGTERM))})
    reaped = _reap_in_background(child)
    assert processes.end_leftovers(Ledger(ledger.path)) == 2
    assert not head.alive() and not grandchild.alive()
    assert not ledger.path.exists()
    reaped.wait(5)


@pytest.mark.parametrize("content", ["", "[", "{}", '[{"pid": "x"}]', "null"])
def test_a_broken_list_of_processes_ends_nothing(tmp_path, content):
    path = tmp_path / "processes.json"
    path.write_text(content)
    assert processes.end_leftovers(Ledger(path)) == 0


def _reap_in_background(child: subprocess.Popen[bytes]):

    done = threading.Event()
    threading.Thread(target=lambda: (child.wait(), done.set()), daemon=True).start()
    return done
