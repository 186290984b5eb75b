"""Running a body of code in a sandbox, and what came of it, for the tests of its walls."""

from __future__ import annotations

import textwrap

from trainers.rewards.sandbox import Outcome, Sandbox


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
