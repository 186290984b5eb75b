from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BloomConfig, BloomForCausalLM, Qwen3Config, Qwen3ForCausalLM

from trainers.engine import base_models
from trainers.engine.base_models import known_models, model_manifest, resolve_base_model
from trainers.engine.engine import Engine
from trainers.engine.tiny import tiny_llama
from trainers.errors import RunError

TEXTS = [
    "hello",
    "héllo wörld",
    "你好，世界。",
    "🙂👩‍🔬",
    "  two  spaces\n\ttab",
    "def f(x):\n    return x**2",
    "",
    "\x00\x7f",
]


def test_the_tiny_model_is_the_same_for_the_same_seed(tmp_path):
    one, same, other = (tiny_llama(tmp_path / str(i), seed=seed) for i, seed in enumerate((3, 3, 4)))
    weights = [(folder / "model.safetensors").read_bytes() for folder in (one, same, other)]
    assert weights[0] == weights[1] != weights[2]


def test_the_tiny_tokenizer_takes_any_text_and_gives_it_back(tiny_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_token == "<|im_end|>"


def test_many_who_prepare_a_model_at_once_all_get_it(tmp_path, monkeypatch):
    calls = []

    def prepare(folder: Path) -> None:
        calls.append(folder)
        tiny_llama(folder)

    monkeypatch.setitem(base_models._PREPARERS, "tiny-random-llama", prepare)
    with ThreadPoolExecutor(6) as pool:
        paths = set(pool.map(lambda _: resolve_base_model("tiny-random-llama", tmp_path), range(6)))
    assert len(paths) == 1
    assert [path.name for path in tmp_path.iterdir()] == [paths.pop().name]  # no draft is left behind
    before = len(calls)
    resolve_base_model("tiny-random-llama", tmp_path)
    assert len(calls) == before


def test_a_preparation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(folder: Path) -> None:
        (folder / "config.json").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(base_models._PREPARERS, "tiny-random-llama", fail)
    with pytest.raises(RunError, match="No space left on device"):
        resolve_base_model("tiny-random-llama", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(RunError) as caught:
        resolve_base_model("no/such-model", tmp_path)
    assert caught.value.kind == "base_model" and caught.value.field == "model.base"
    assert all(model.name in caught.value.advice for model in known_models())


@pytest.mark.parametrize(
    ("missing", "says"),
    [("config.json", "config"), ("model.safetensors", "safetensors"), ("tokenizer.json", "tokenizer")],
)
def test_a_folder_that_lacks_something_says_what(tmp_path, missing, says):
    folder = tiny_llama(tmp_path / "model")
    (folder / missing).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickled weights are never read")
    with pytest.raises(RunError, match=says):
        resolve_base_model(str(folder), tmp_path)


def test_code_in_a_model_folder_is_not_run(tmp_path):
    folder = tiny_llama(tmp_path / "model")
    marker = tmp_path / "ran"
    (folder / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w')")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "evil",
        "auto_map": {"AutoConfig": "modeling_evil.C", "AutoModelForCausalLM": "modeling_evil.M"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError) as caught:
        Engine.load(folder, threads=1)
    assert caught.value.kind == "base_model"
    assert not marker.exists()


def test_the_manifest_of_a_foreign_folder_is_empty(tmp_path):
    assert model_manifest(tmp_path) == {}


def _with_tokenizer(model, folder: Path, tiny_folder: Path) -> Path:
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tiny_folder / name).read_bytes())
    return folder


def test_another_family_of_models_works_too(tmp_path, tiny_folder):
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=259, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, eos_token_id=2, pad_token_id=0, bos_token_id=1,
    )  # fmt: skip
    engine = Engine.load(_with_tokenizer(Qwen3ForCausalLM(config), tmp_path / "qwen3", tiny_folder), threads=1)
    assert engine.adaptable


def test_a_family_whose_attention_is_its_own_is_refused(tmp_path, tiny_folder):
    torch.manual_seed(0)
    config = BloomConfig(vocab_size=259, hidden_size=32, n_layer=2, n_head=2, eos_token_id=2, bos_token_id=1)
    folder = _with_tokenizer(BloomForCausalLM(config), tmp_path / "bloom", tiny_folder)
    with pytest.raises(RunError) as caught:
        Engine.load(folder, threads=1)
    assert caught.value.kind == "base_model" and "bloom" in caught.value.message
