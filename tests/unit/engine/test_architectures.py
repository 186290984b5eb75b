"""Tiny random models of many families: what the engine computes is what plain transformers and peft compute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.engine.export import export_adapter, export_merged
from trainers.engine.lora import LoraConfig
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunError

SIZES: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 24, "num_experts": 4, "num_local_experts": 4}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}),
    "llama-rope-scaled": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}, "tie_word_embeddings": False},
    ),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": False}),
    "qwen2-window": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": True}),
    "smollm3": ("SmolLM3Config", {"no_rope_layers": [1, 0]}),
    "mistral-window": ("MistralConfig", {"sliding_window": 8}),
    "gemma": ("GemmaConfig", {}),
    "gemma3-window": (
        "Gemma3TextConfig",
        {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt-neox": ("GPTNeoXConfig", {"rotary_pct": 0.25}),
    "phi3": ("Phi3Config", {}),
    "olmo2": ("Olmo2Config", {}),
    "mixtral": ("MixtralConfig", MOE),
    "qwen3-moe": ("Qwen3MoeConfig", MOE),
}
EXPERTS = ("mixtral", "qwen3-moe")
PROMPT = list(range(40, 62))


def save(name: str, folder: Path, tiny_folder: Path, **changes: Any) -> Path:
    kind, options = FAMILIES[name]
    config = getattr(transformers, kind)(**(SIZES | options | changes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tiny_folder / file, folder / file)
    return folder


def family_data() -> list[Datum]:
    generator = torch.Generator().manual_seed(2)
    data = []
    for length in (14, 3, 9, 22):
        completion = torch.randint(3, 250, (length,), generator=generator).tolist()
        data.append(Datum([*PROMPT, *completion[:-1]], completion))
    return [*data, Datum(PROMPT[:-1], PROMPT[1:])]


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_logprobs_and_samples_are_those_of_the_plain_model(name, tiny_folder, tmp_path):
    folder = save(name, tmp_path, tiny_folder)
    engine = Engine.load(folder, threads=1)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    engine.add_adapter("a", LoraConfig(rank=3, alpha=6.0, mlp=name not in EXPERTS))
    for datum, found in zip(family_data(), engine.logprobs("a", family_data()), strict=True):
        with torch.no_grad():
            scores = model(torch.tensor([datum.tokens])).logits[0].log_softmax(-1)[-len(datum.targets) :]
        torch.testing.assert_close(
            found, scores.gather(1, torch.tensor(datum.targets)[:, None])[:, 0], rtol=0, atol=1e-4
        )
    prompts = [PROMPT, PROMPT[:-9], PROMPT]
    params = SamplingParams(max_tokens=14, n=2, seed=1, stop_tokens=tuple(range(60, 70)))
    for prompt, group in zip(prompts, engine.sample("a", prompts, params), strict=True):
        scored = engine.logprobs("a", [Datum([*prompt, *c.tokens[:-1]], c.tokens) for c in group])
        for completion, values in zip(group, scored, strict=True):
            torch.testing.assert_close(torch.tensor(completion.logprobs), values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_gradients_are_those_of_one_sequence_at_a_time(name, tiny_folder, tmp_path):
    dtype = torch.float32 if name in EXPERTS else torch.float64  # PyTorch has no grouped product in float64
    engine = Engine.load(save(name, tmp_path, tiny_folder), dtype=dtype, threads=1)
    adapter = engine.add_adapter("a", LoraConfig(rank=3, alpha=6.0, mlp=name not in EXPERTS))
    with torch.no_grad():
        adapter.values.add_(0.1 * torch.randn(adapter.values.shape, generator=torch.Generator().manual_seed(1)))
    for datum in family_data():
        engine.forward_backward("a", [datum], "cross_entropy")
    alone = adapter.gradient.clone()
    adapter.gradient.zero_()
    engine.forward_backward("a", family_data(), "cross_entropy")
    # The gradient itself is float32 always.
    assert float((adapter.gradient - alone).norm() / alone.norm()) < (2e-5 if name in EXPERTS else 1e-6)


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("qwen2-window", "llama-rope-scaled")])
def test_an_exported_adapter_gives_the_same_answers_in_peft(name, rslora, tiny_folder, tmp_path):
    engine = Engine.load(save(name, tmp_path / "base", tiny_folder), threads=1)
    config = LoraConfig(rank=4, alpha=6.0, mlp=name not in EXPERTS, unembedding=rslora, rslora=rslora)
    adapter = engine.add_adapter("a", config)
    with torch.no_grad():
        adapter.values.add_(0.1 * torch.randn(adapter.values.shape, generator=torch.Generator().manual_seed(1)))
    assert export_adapter(engine, "a", tmp_path / "adapter", base_model="base") < 2e-3
    if rslora:
        assert export_merged(engine, "a", tmp_path / "merged") < 2e-3


@pytest.mark.parametrize("name", EXPERTS)
def test_an_adapter_on_experts_in_one_block_is_refused_and_full_weights_are_not(name, tiny_folder, tmp_path):
    engine = Engine.load(save(name, tmp_path / "base", tiny_folder), threads=1)
    with pytest.raises(RunError, match="experts"):
        engine.add_adapter("a", LoraConfig(rank=2))
    weights = engine.add_full("whole")
    engine.forward_backward("whole", family_data(), "cross_entropy")
    assert any("experts" in key and value.any() for key, value in weights.named(weights.gradient).items())
    assert export_merged(engine, "whole", tmp_path / "merged") < 2e-3


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("Gemma2Config", {"final_logit_softcapping": 30.0}, "soft-capped"),
        ("BloomConfig", {"n_layer": 2, "n_head": 4}, "attention"),
        ("MambaConfig", {"state_size": 4}, "state-space"),
        ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4}, "no layer"),
    ],
)
def test_what_an_architecture_cannot_do_is_refused_with_the_reason(kind, options, reason, tiny_folder, tmp_path):
    sizes = {key: value for key, value in SIZES.items() if key not in ("head_dim",)} | options
    model = AutoModelForCausalLM.from_config(getattr(transformers, kind)(**sizes))
    model.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tiny_folder / file, tmp_path / file)
    with pytest.raises(RunError, match=reason) as caught:
        Engine.load(tmp_path, threads=1).add_adapter("a", LoraConfig())
    assert caught.value.kind == "base_model"
