"""Sandboxes with all walls up, and with each set that must do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainers.rewards.sandbox import Sandbox

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
