"""Loading a base model, and proof that the engine's packed pass computes what the model's own pass computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from trainers.engine.attention import ATTENTION_NAME, TreeAttention
from trainers.engine.base_models import check_model_folder
from trainers.engine.packing import lay_out
from trainers.errors import RunError

if TYPE_CHECKING:
    from trainers.engine.engine import Engine

_CHECK_TOKENS = 24
_CHECK_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 0.5}
# Settings that change how attention or logits are computed, in ways that the packed pass does not do.
_UNSUPPORTED = {
    "attn_logit_softcapping": "soft-capped attention scores",
    "final_logit_softcapping": "soft-capped logits",
    "attention_sink": "attention sinks",
    "logit_scale": "scaled logits",
    "logits_scaling": "scaled logits",
    "kv_lora_rank": "latent attention",
    "linear_num_value_heads": "linear attention",
    "mamba_d_state": "state-space layers",
    "state_size": "state-space layers",
}


def load_model(
    path: Path, dtype: torch.dtype, device: str
) -> tuple[nn.Module, PreTrainedTokenizerBase, Tensor, Tensor]:
    """The model, its tokenizer, probe tokens (2, T) and the logits the plain model gives for them (2, T, V).

    Raises ``RunError("base_model", …)`` for a folder that cannot be read and for an architecture that is known not to
    work, with the reason.
    """
    check_model_folder(path)
    transformers_logging.disable_progress_bar()
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise RunError(
            "base_model",
            f"The base model {path.name} could not be loaded: {str(error).splitlines()[0]}",
            "Choose another base model, or check that its folder is complete.",
            "model.base",
        ) from error
    _refuse_unsupported(model)
    model = model.to(device).eval().requires_grad_(False)
    probes = _probes(model.config.vocab_size, _probe_length(model.config))
    with torch.no_grad():
        expected = model(probes.to(device), use_cache=False).logits
    model.config._attn_implementation = ATTENTION_NAME
    return model, tokenizer, probes, expected


def _refuse_unsupported(model: Any) -> None:
    config = model.config
    for setting, what in _UNSUPPORTED.items():
        value = getattr(config, setting, None)
        if value not in (None, False, 0, 1, 1.0):
            raise _unsupported(config.model_type, f"it has {what} ({setting}), which the engine does not compute")
    if not isinstance(model.get_output_embeddings(), nn.Linear):
        raise _unsupported(config.model_type, "its output layer is not a plain linear layer")
    if getattr(config, "num_hidden_layers", None) is None:
        raise _unsupported(config.model_type, "its configuration does not say how many layers it has")
    if not getattr(model, "_supports_attention_backend", False):
        raise _unsupported(config.model_type, "its attention cannot be replaced (it has no attention interface)")


def refuse_experts(model: nn.Module) -> None:
    """Raise ``RunError("base_model", …)`` where the feed-forward weights stand in one block for all experts."""
    for name, module in model.named_modules():
        for leaf, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 3 and "expert" in f"{name}.{leaf}":
                raise RunError(
                    "base_model",
                    f"The experts of this model are one block of weights ({leaf}), which an adapter cannot change.",
                    "Set model.adapter.mlp to false to adapt its attention, or train all weights.",
                    "model.adapter.mlp",
                )


def prove_packed(engine: Engine, probes: Tensor, expected: Tensor) -> None:
    """Raise ``RunError("base_model", …)`` unless the packed pass gives the logits of the plain one."""
    layout = lay_out(probes.tolist())
    tokens, positions = (torch.from_numpy(part).to(engine.device) for part in (layout.tokens, layout.positions))
    cause: Exception | None = None
    try:
        pattern = TreeAttention(layout, engine.dtype, engine.device)
        with torch.no_grad(), engine.route.open(), engine.route.attending(pattern):
            row = engine.logits(engine.hidden(tokens, positions))
        found = torch.stack([row[torch.from_numpy(place).to(engine.device)] for place in layout.places])
        difference = float((found.double() - expected.double()).abs().max())
        reason = f"the packed pass gives other logits than the model's own (by {difference:.2g})"
    except (LookupError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        difference, cause, reason = float("inf"), error, f"the packed pass fails ({str(error).splitlines()[0]})"
    if not difference <= _CHECK_TOLERANCE[engine.dtype] * max(1.0, float(expected.abs().max())):
        raise _unsupported(engine.config.model_type, reason) from cause


def _unsupported(kind: str, reason: str) -> RunError:
    return RunError(
        "base_model",
        f"Models of the type {kind} are not supported by the engine yet: {reason}.",
        "Choose a model of another family, for example Llama, Qwen or SmolLM.",
        "model.base",
    )


def _probe_length(config: Any) -> int:
    """Longer than a sliding window where that is cheap, so that a window read wrongly shows."""
    window = getattr(config, "sliding_window", None)
    return _CHECK_TOKENS if not isinstance(window, int) or window > 512 else max(_CHECK_TOKENS, window + 8)


def _probes(vocabulary: int, length: int) -> Tensor:
    """Two sequences with a common beginning: a model that ignores the pattern of the pass would mix them up."""
    one = (torch.arange(length) * 7919 + 11) % vocabulary
    other = torch.cat([one[: length // 2], one[length // 2 :].flip(0)])
    return torch.stack([one, other])
