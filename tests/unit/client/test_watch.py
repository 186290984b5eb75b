"""Watching a job: on a terminal, in a pipe, and after Ctrl-C."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tuneyard import watch as watching
from tuneyard.errors import JobFailed
from tuneyard.jobs import JobHandle

BASE = {
    "id": "22222222-2222-2222-2222-222222222222",
    "name": "sums [bold]",
    "state": "running",
    "state_label": "Running",
    "reason": "",
    "advice": "",
    "phase": "training",
    "step": 0,
    "total_steps": 4,
    "fraction": 0.0,
    "eta_s": 8.0,
    "ended": False,
    "latest": {"train/reward": {"step": 1, "value": 0.5}},
    "result": None,
    "url": "http://server/jobs/2",
}


def job_with(*stages, interrupt=False) -> JobHandle:
    """A job that goes through these stages, without a server."""
    job = JobHandle(client=None, data=BASE)

    def changes():
        for stage in stages:
            job.data = {**BASE, **stage}
            yield job
        if interrupt:
            raise KeyboardInterrupt

    job.changes = changes
    return job


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, _environ={"TERM": "xterm"})


RUNNING = {"step": 2, "fraction": 0.5, "reason": "Runs on [red]node 1[/red]."}
DONE = {"state": "succeeded", "state_label": "Succeeded", "ended": True, "eta_s": None, "fraction": 1.0, "step": 4}


def test_a_terminal_shows_a_bar_with_step_reward_and_reason():
    out = console(terminal=True)
    watching.watch(job_with({}, RUNNING, DONE), console=out)
    shown = out.file.getvalue()
    assert "step 2/4" in shown or "step 4/4" in shown
    assert "reward 0.5" in shown
    assert "Runs on [red]node 1[/red]." in shown, "words of the server are no markup"
    assert "succeeded" in shown


def test_a_pipe_gets_plain_lines():
    out = console(terminal=False)
    watching.watch(job_with({}, RUNNING, DONE), console=out)
    lines = out.file.getvalue().splitlines()
    assert lines[0] == "Running  training  step 0/4  reward 0.5  8 s left"
    assert lines[1] == "Running  training  step 2/4  reward 0.5  8 s left  Runs on [red]node 1[/red]."
    assert "\x1b" not in out.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_ctrl_c_says_that_the_job_goes_on(terminal):
    out = console(terminal)
    with pytest.raises(KeyboardInterrupt):
        watching.watch(job_with({}, RUNNING, interrupt=True), console=out)
    assert "The job goes on: `tuneyard watch 22222222`" in out.file.getvalue()


def test_a_failure_is_raised_with_reason_and_advice():
    failed = {"state": "failed", "ended": True, "reason": "Out of memory.", "advice": "Use a smaller batch."}
    with pytest.raises(JobFailed, match=r"failed: Out of memory\. Use a smaller batch\."):
        watching.watch(job_with({}, failed), console=console(terminal=False))


def test_a_quick_succession_of_steps_is_not_a_flood_of_lines():
    out = console(terminal=False)
    watching.watch(job_with(*({"step": step} for step in range(500)), DONE), console=out)
    assert len(out.file.getvalue().splitlines()) < 10
