from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.unit.engine.test_training import group_data
from trainers.engine.checkpoint import load_state, save_state
from trainers.engine.export import export_adapter, export_merged
from trainers.engine.lora import LoraConfig
from trainers.engine.optimizer import AdamParams
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunError


def train(engine, adapter: str, steps: int) -> list[float]:
    losses = []
    for step in range(steps):
        losses.append(engine.forward_backward(adapter, group_data(step), "ppo").loss)
        engine.optim_step(adapter, AdamParams(0.01, grad_clip_norm=1.0))
        engine.sample(adapter, [[5, 6]], SamplingParams(max_tokens=3))
    return losses


def test_a_run_that_goes_on_from_a_state_equals_the_run_that_never_stopped(make_engine, tmp_path):
    whole, first, second = make_engine(), make_engine(), make_engine()
    train(whole, "a", 2)
    train(first, "a", 2)
    save_state(first, "a", tmp_path / "state", {"step": 2})
    assert load_state(second, "resumed", tmp_path / "state") == {"step": 2}
    assert train(whole, "a", 3) == train(second, "resumed", 3)
    assert torch.equal(whole.adapters["a"].values, second.adapters["resumed"].values)
    params = SamplingParams(max_tokens=5)
    assert whole.sample("a", [[9]], params) == second.sample("resumed", [[9]], params)


def test_weights_alone_start_a_fresh_optimizer(make_engine, tmp_path):
    engine = make_engine()
    train(engine, "a", 2)
    save_state(engine, "a", tmp_path)
    load_state(engine, "b", tmp_path, optimizer=False)
    assert torch.equal(engine.adapters["a"].values, engine.adapters["b"].values)
    assert engine.adapters["b"].steps == 0 and not engine.adapters["b"].first_moment.any()


@pytest.mark.parametrize("damage", ["missing", "shape", "json"])
def test_a_damaged_state_is_a_named_error(make_engine, tmp_path, damage):
    engine = make_engine()
    save_state(engine, "a", tmp_path)
    if damage == "missing":
        (tmp_path / "optimizer.safetensors").unlink()
    elif damage == "json":
        (tmp_path / "state.json").write_text("{")
    else:
        weights = load_file(tmp_path / "adapter.safetensors")
        save_file({name: value[:1].clone() for name, value in weights.items()}, tmp_path / "adapter.safetensors")
    with pytest.raises(RunError) as caught:
        load_state(engine, "b", tmp_path)
    assert caught.value.kind == "storage"


@pytest.mark.parametrize("parts", [{}, {"mlp": False}, {"attention": False}, {"unembedding": True}])
def test_plain_peft_and_transformers_give_the_same_answers_as_the_engine(make_engine, tmp_path, parts):
    engine = make_engine(**parts)
    assert export_adapter(engine, "a", tmp_path / "adapter", base_model="tiny") < 1e-4
    assert export_merged(engine, "a", tmp_path / "merged") < 1e-3
    prompt = [50, 60, 70, 80]
    ours = engine.sample("a", [prompt], SamplingParams(max_tokens=10, temperature=0))[0][0].tokens
    base = AutoModelForCausalLM.from_pretrained(engine.path)
    for model in (
        PeftModel.from_pretrained(base, tmp_path / "adapter"),
        AutoModelForCausalLM.from_pretrained(tmp_path / "merged"),
    ):
        options = {"max_new_tokens": 10, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        tokens = model.generate(input_ids=torch.tensor([prompt]), **options)[0, len(prompt) :]
        assert tokens.tolist() == ours
    assert AutoTokenizer.from_pretrained(tmp_path / "merged").chat_template


def test_the_adapter_config_says_what_peft_and_vllm_read(make_engine, tmp_path):
    engine = make_engine()
    export_adapter(engine, "a", tmp_path, base_model="smollm2-135m-instruct")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (4, 8.0, "LORA")
    assert config["base_model_name_or_path"] == "smollm2-135m-instruct"
    assert config["target_modules"] == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]


def test_an_export_that_says_something_else_is_refused(make_engine, tmp_path, monkeypatch):
    engine = make_engine()

    def wrong(tensors, path, metadata=None):
        save_file({name: value * 1.5 for name, value in tensors.items()}, path, metadata=metadata)

    monkeypatch.setattr("trainers.engine.export.save_file", wrong)
    with pytest.raises(RunError, match="other log-probabilities"):
        export_adapter(engine, "a", tmp_path, base_model="tiny")


def test_an_adapter_of_nothing_is_refused(make_engine):
    with pytest.raises(RunError, match="no layer"):
        make_engine().add_adapter("none", LoraConfig(attention=False, mlp=False))
