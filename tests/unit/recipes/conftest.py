from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.recording import RecordingContext
from trainers.engine.engine import Engine
from trainers.engine.tiny import tiny_llama
from trainers.spec import parse_spec


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("models") / "tiny-random-llama")


@pytest.fixture
def engine(tiny_folder: Path) -> Engine:
    return Engine.load(tiny_folder, threads=1)


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., RecordingContext]:
    """A context for a small task on the tiny model; sections given are merged into it."""
    count = iter(range(100))

    def make(recipe: str = "grpo", stop: Callable[[], bool] = lambda: False, **sections: Any) -> RecordingContext:
        task: dict[str, Any] = {
            "recipe": recipe,
            "data": {"source": "rows"},
            "model": {"base": "tiny-random-llama", "adapter": {"rank": 8}},
            "hyperparameters": {"steps": 4, "batch_size": 4, "learning_rate": 0.01},
            "sampling": {"group_size": 4, "max_new_tokens": 6},
            "evaluation": {"every_steps": 2, "prompts": 4, "samples_per_prompt": 2},
            "seed": 3,
        }
        if recipe == "grpo":
            task["reward"] = {"components": [{"kind": "length", "maximum": 10}]}
        for name, section in sections.items():
            task[name] = {**task.get(name, {}), **section} if isinstance(section, dict) else section
        scratch = tmp_path / f"run-{next(count)}"
        scratch.mkdir()
        return RecordingContext(parse_spec(task), scratch, stop)

    return make
