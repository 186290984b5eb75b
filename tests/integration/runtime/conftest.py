"""A real Ray head, and drivers of small real runs on it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runtime.small_runs import NAMESPACE, Bench
from trainers.runtime import launch as runtime
from trainers.runtime.events import Event
from trainers.storage import Storage


@pytest.fixture(scope="module")
def _storage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Storage, str]:
    folder = tmp_path_factory.mktemp("runtime")
    storage = Storage(f"file://{folder}/store")
    draw = random.Random(0)
    pairs = draw.sample([(a, b) for a in range(10) for b in range(10)], 60)
    rows = "".join(json.dumps({"question": f"{a}+{b}=", "answer": str(a + b)}) + "\n" for a, b in pairs)
    (folder / "sums.jsonl").write_text(rows)
    with (folder / "sums.jsonl").open("rb") as file:
        key, _, _ = storage.put_content(file)
    return folder, storage, key


@pytest.fixture
def bench(ray_address: str, _storage: tuple[Path, Storage, str]) -> Iterator[Bench]:
    runtime.connect(ray_address, NAMESPACE)
    bench = Bench(*_storage)
    yield bench
    bench.end()


Follow = Callable[..., list[Event]]


@pytest.fixture
def follow() -> Follow:
    def follow(driver: Any, until: Callable[[list[Event]], bool], after: int = 0, seconds: float = 90.0) -> list[Event]:
        """Poll by cursor until the events seen satisfy ``until``; no number may be missed or seen twice."""
        found: list[Event] = []
        deadline = time.monotonic() + seconds
        while not until(found):
            assert time.monotonic() < deadline, found[-5:]
            answer = runtime.poll(driver, after=found[-1]["seq"] if found else after, wait_s=2.0, limit=20)
            found += answer["events"]
            assert [event["seq"] for event in found] == list(range(after + 1, after + len(found) + 1))
        return found

    return follow
