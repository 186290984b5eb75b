"""Handing an adapter over to the world: as a PEFT adapter, or merged into the base model.

An export counts only after plain ``peft`` / ``transformers`` have loaded it again and given the same log-probabilities
as the engine that trained it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from trainers.engine.batch import Datum
from trainers.engine.checkpoint import Writer, copied
from trainers.engine.engine import Engine
from trainers.engine.full import FullWeights
from trainers.engine.lora import Adapter
from trainers.errors import RunError

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-3, torch.bfloat16: 0.3}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def export_adapter(
    engine: Engine, adapter: str, folder: Path, *, base_model: str, probes: Sequence[Sequence[int]] | None = None
) -> float:
    """Write ``adapter_model.safetensors`` and ``adapter_config.json`` as PEFT reads them, and prove them.

    ``base_model`` is the name put into the config. ``probes`` are token sequences to compare on (default: a fixed
    one). Returns the largest difference of a log-probability. Raises ``RunError("internal", …)`` if it is too large,
    ``ValueError`` for full weights, which only :func:`export_merged` can write.
    """
    snapshot_adapter(engine, adapter, base_model=base_model)(folder)
    base = _plain_model(engine, engine.path)
    reloaded = PeftModel.from_pretrained(base, str(folder))
    return _prove(engine, adapter, reloaded, probes, folder)


def snapshot_adapter(engine: Engine, adapter: str, *, base_model: str) -> Writer:
    """The adapter of this moment, copied to the CPU's memory; the writer makes a PEFT folder of it, without a proof.

    Raises ``ValueError`` for full weights.
    """
    state = engine.adapters[adapter]
    if isinstance(state, FullWeights):
        raise ValueError(f"{adapter} is a full copy of the weights; export it as a merged model")
    tensors = {f"base_model.model.{name}.weight": value for name, value in copied(state, state.values).items()}
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": state.config.rank,
        "lora_alpha": state.config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "use_rslora": state.config.rslora,
        "inference_mode": True,
        "target_modules": sorted(_leaves(list(state.factors))),
    }

    def write(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    return write


def export_merged(
    engine: Engine, adapter: str, folder: Path, *, probes: Sequence[Sequence[int]] | None = None
) -> float:
    """Write the base model with the adapter added into its weights (or the full weights), with tokenizer, and prove it.

    Returns as above.
    """
    state = engine.adapters[adapter]
    folder.mkdir(parents=True, exist_ok=True)
    model = _plain_model(engine, engine.path)
    changed = _full(state) if isinstance(state, FullWeights) else _merged(model, state)
    _set_weights(model, changed)
    model.save_pretrained(folder)
    for file in _TOKENIZER_FILES:
        if (engine.path / file).is_file():
            shutil.copyfile(engine.path / file, folder / file)
    del model
    return _prove(engine, adapter, _plain_model(engine, folder), probes, folder)


def _merged(model: PreTrainedModel, state: Adapter) -> Iterator[tuple[str, Tensor]]:
    """The weights that the adapter changes, by name."""
    for name, (down, up) in state.factors.items():
        weight: Tensor = model.get_submodule(name).weight  # type: ignore[assignment]
        change = (up.detach().double() @ down.detach().double()).mul_(state.config.scale).cpu()
        yield f"{name}.weight", (weight.double() + change).to(weight.dtype)


def _full(state: FullWeights) -> Iterator[tuple[str, Tensor]]:
    yield from ((name, value.detach().cpu()) for name, value in state.named(state.values).items())


def _set_weights(model: PreTrainedModel, weights: Iterable[tuple[str, Tensor]]) -> None:
    output = model.get_output_embeddings()
    tied = output.weight is model.get_input_embeddings().weight
    with torch.no_grad():
        for name, value in weights:
            path, _, leaf = name.rpartition(".")
            layer = model.get_submodule(path)
            before: Tensor = getattr(layer, leaf)
            if layer is output and tied:  # no longer the embedding's own weight
                model.config.tie_word_embeddings = False
                model._tied_weights_keys = None  # type: ignore[assignment]
                setattr(layer, leaf, torch.nn.Parameter(value.to(before.dtype), requires_grad=False))
            else:
                before.copy_(value)


def _leaves(modules: list[str]) -> set[str]:
    """Layer names for PEFT: the last part of each path (``q_proj``), the same in every block."""
    return {module.rpartition(".")[2] for module in modules}


def _plain_model(engine: Engine, path: Path) -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=engine.dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False
    )
    return model.eval()


def _prove(
    engine: Engine, adapter: str, model: torch.nn.Module, probes: Sequence[Sequence[int]] | None, folder: Path
) -> float:
    worst = 0.0
    probes = list(probes or [_default_probe(engine)])
    data = [Datum(probe[:-1], probe[1:]) for probe in probes]
    for probe, expected in zip(probes, engine.logprobs(adapter, data), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([list(probe[:-1])])).logits[0]
        found = logits.double().log_softmax(-1).gather(1, torch.tensor(probe[1:])[:, None])[:, 0]
        worst = max(worst, float((found - expected.cpu().double()).abs().max()))
    if not worst <= _TOLERANCE[engine.dtype]:
        raise RunError(
            "internal",
            f"The exported model {folder.name} gives other log-probabilities than the trained one (by {worst:.3g}).",
            "The export was not published. Keep the run's checkpoint, and report this.",
        )
    return worst


def _default_probe(engine: Engine) -> list[int]:
    text = "The quick brown fox jumps over the lazy dog. 12 + 30 = 42, said the model; 你好 and goodbye."
    return list(engine.tokenizer(text, add_special_tokens=False)["input_ids"])
