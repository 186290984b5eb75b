"""A run's checkpoint: all that a run needs to go on as if it had never stopped.

Layout of the folder: ``policy/`` (adapter, optimizer, draws; see :mod:`trainers.engine.checkpoint`), further adapters
of the recipe under their names, ``rng.safetensors``, ``run.json`` (step, data cursor, meters, the recipe's memory) and
``files.json`` (size and SHA-256 of all others, written last). The learning rate follows from the step.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from trainers.engine.checkpoint import Writer, load_state, snapshot_state
from trainers.engine.engine import Engine
from trainers.engine.rng import rng_state, set_rng_state
from trainers.errors import RunError
from trainers.spec import TaskSpec

FILES, RUN, RNG, POLICY = "files.json", "run.json", "rng.safetensors", "policy"
_VERSION = 1
_ADVICE = "Choose an earlier checkpoint, or start the job from its beginning."
# What may differ between the run that wrote a checkpoint and the one that goes on from it.
_FREE = {"name", "checkpointing", "resources", "budget"}


@dataclass
class RunState:
    """Where a run stands after a step. ``cursor``: prompts drawn so far. ``memory``: what the recipe remembers."""

    step: int
    steps: int
    cursor: int
    tokens: int
    active_s: float
    train_s: float
    before: dict[str, Any] | None
    task: str
    rows: str
    memory: dict[str, Any] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)


def task_fingerprint(spec: TaskSpec) -> str:
    """Equal for specs that train the same way."""
    # Without defaults: a later version of the spec with more fields gives the same.
    text = json.dumps(spec.model_dump(mode="json", exclude=_FREE, exclude_defaults=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_fingerprint(keys: Sequence[str]) -> str:
    """Equal for the same rows in the same order."""
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def snapshot_run(engine: Engine, adapter: str, state: RunState, more: Writer | None = None) -> Writer:
    """A checkpoint of this moment, in the CPU's memory; the writer puts it into a folder, which may take its time.

    ``more`` writes what else the recipe has into its place there.
    """
    policy = snapshot_state(engine, adapter)
    random = {name: value.clone() for name, value in rng_state().items()}
    record = json.dumps({"version": _VERSION, **asdict(state)}) + "\n"

    def write(folder: Path) -> None:
        policy(folder / POLICY)
        if more is not None:
            more(folder)
        save_file(random, folder / RNG)
        (folder / RUN).write_text(record, encoding="utf-8")
        files = {name: {"size": path.stat().st_size, "sha256": _hash(path)} for name, path in _listed(folder)}
        (folder / FILES).write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")

    return write


def load_run(
    engine: Engine,
    adapter: str,
    folder: Path,
    expected: Mapping[str, str],
    more: Callable[[Path], None] | None = None,
) -> RunState:
    """Go back to a checkpoint: adapter, optimizer and random numbers are then those of that moment.

    ``expected`` has the fingerprints ``task`` and ``rows`` of the run that wants to go on. Raises
    ``RunError("storage", …)`` naming the file that is damaged or missing, before anything was changed, and
    ``RunError("bad_data", …)`` when the checkpoint belongs to another task or other data.
    """
    verify(folder)
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
        if record.pop("version") != _VERSION:
            raise ValueError("it was written by another version of this program")
        state = RunState(**record)
        random = load_file(folder / RNG)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunError("storage", f"The checkpoint cannot be read: {error}.", _ADVICE) from error
    for name, what in (("task", "another task"), ("rows", "other data")):
        if getattr(state, name) != expected[name]:
            raise RunError("bad_data", f"The checkpoint belongs to {what}, so the run cannot go on from it.", _ADVICE)
    load_state(engine, adapter, folder / POLICY)
    if more is not None:
        more(folder)
    set_rng_state(random)
    return state


def verify(folder: Path) -> None:
    """Compare every file with its recorded hash. Raises ``RunError("storage", …)`` naming the first that differs."""
    try:
        files: dict[str, dict[str, Any]] = json.loads((folder / FILES).read_text(encoding="utf-8"))
        recorded = {str(name): (int(item["size"]), str(item["sha256"])) for name, item in files.items()}
    except FileNotFoundError:
        raise _damaged(FILES, "is missing, so it was not written to its end") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(FILES, "is damaged") from error
    present = dict(_listed(folder))
    for name, (size, digest) in recorded.items():
        path = present.get(name)
        if path is None:
            raise _damaged(name, "is missing")
        if path.stat().st_size != size or _hash(path) != digest:
            raise _damaged(name, "is damaged: its content is not what was written")
    if RUN not in recorded:
        raise _damaged(FILES, "is damaged")


def _damaged(name: str, what: str) -> RunError:
    return RunError("storage", f"The checkpoint cannot be used: its file {name} {what}.", _ADVICE)


def _listed(folder: Path) -> list[tuple[str, Path]]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [(path.relative_to(folder).as_posix(), path) for path in paths if path.name != FILES]


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
