"""Adding an adapter into its base model's weights, in a process of its own on the cluster."""

from __future__ import annotations

import tempfile
from pathlib import Path

import ray

from trainers.runtime.cluster import within

MERGE_TIMEOUT_S = 240.0


def merge_on_cluster(
    *, storage_url: str, adapter: str, target: str, base_model: str, cache_dir: str, timeout: float = MERGE_TIMEOUT_S
) -> None:
    """Merge the adapter stored under the prefix ``adapter`` and store the whole model under ``target``.

    The caller is connected to Ray. Waits for the end; raises what the merge raised, or ``RuntimeUnavailable`` when it
    is not done in time. Done again, it writes the same.
    """
    task = ray.remote(num_cpus=0, max_retries=1)(_merge)
    reference = task.remote(storage_url, adapter, target, base_model, cache_dir)
    within(timeout, "merge a model", lambda: ray.get(reference, timeout=timeout))


def _merge(storage_url: str, adapter: str, target: str, base_model: str, cache_dir: str) -> None:
    from trainers.engine.adopt import import_adapter
    from trainers.engine.base_models import resolve_base_model
    from trainers.engine.engine import Engine
    from trainers.engine.export import export_merged
    from trainers.storage import Storage

    storage = Storage(storage_url)
    engine = Engine.load(resolve_base_model(base_model, Path(cache_dir)), threads=1)
    with tempfile.TemporaryDirectory(prefix="merge-") as scratch:
        given, merged = Path(scratch, "adapter"), Path(scratch, "merged")
        storage.fetch_folder(adapter, given)
        import_adapter(engine, "merged", given)
        export_merged(engine, "merged", merged)
        storage.put_folder(merged, target)
