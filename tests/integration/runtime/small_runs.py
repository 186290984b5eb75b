"""Launches of small real runs: sums, by a tiny model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainers.runtime import launch as runtime
from trainers.runtime.events import Event
from trainers.runtime.launch import Launch
from trainers.storage import Storage

NAMESPACE = "tuneyard"

SUMS: dict[str, Any] = {
    "recipe": "grpo",
    "model": {"base": "tiny-random-llama", "adapter": {"rank": 4, "alpha": 8}},
    "data": {"source": "dataset:sums@1"},
    "reward": {"components": [{"kind": "numeric"}]},
    "sampling": {"group_size": 4, "max_new_tokens": 4},
    "hyperparameters": {"steps": 3, "batch_size": 2},
    "evaluation": {"prompts": 4, "samples_per_prompt": 2, "every_steps": 2},
}


@dataclass
class Bench:
    """Starts drivers and ends what is left of them."""

    folder: Path
    storage: Storage
    dataset_key: str
    started: list[str] = field(default_factory=list)

    def launch(self, name: str, spec: dict[str, Any] | None = None, **changes: Any) -> Launch:
        values = {
            "attempt_id": name,
            "epoch": 1,
            "name": f"job-{name}",
            "spec": spec or SUMS,
            "storage_url": self.storage.url,
            "dataset_key": self.dataset_key,
            "dataset_file": "sums.jsonl",
            "base_model": "tiny-random-llama",
            "cache_dir": str(self.folder / "models"),
            "work_dir": str(self.folder / "work"),
            "threads": 1,
        }
        return Launch.model_validate(values | changes)

    def start(self, name: str, spec: dict[str, Any] | None = None, node_id: str = "", **changes: Any) -> Any:
        launch = self.launch(name, spec, **changes)
        self.started.append(launch.name)
        node_id = node_id or next(node.id for node in runtime.cluster_nodes() if node.alive)
        group = runtime.create_group(launch.name, [{"CPU": 1}], [node_id], 30)
        return runtime.start_driver(launch, group, {"CPU": 1})

    def end(self) -> None:
        for name in self.started:
            runtime.kill_driver(name)
            runtime.remove_group(name)


def ended(events: list[Event]) -> bool:
    """Whether the last word has been said."""
    return bool(events) and events[-1]["kind"] == "state" and events[-1]["state"] != "started"
