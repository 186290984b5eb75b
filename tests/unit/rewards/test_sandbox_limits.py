"""Code that takes more than it may: time, memory, processes, output, files. The worker outlives it."""

from __future__ import annotations

import pytest
from jailed import raised, run, survives

from trainers.rewards.sandbox import Sandbox


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
