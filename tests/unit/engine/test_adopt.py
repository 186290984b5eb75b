"""An exported adapter can be taken up again, and only where it belongs."""

from __future__ import annotations

import json

import pytest
import torch

from trainers.engine.adopt import import_adapter
from trainers.engine.engine import Engine
from trainers.engine.export import export_adapter
from trainers.engine.lora import LoraConfig
from trainers.engine.tiny import tiny_llama
from trainers.errors import RunError


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "tiny"
    tiny_llama(folder)
    return Engine.load(folder, threads=1)


@pytest.fixture
def exported(engine, tmp_path, request):
    adapter = engine.add_adapter(request.node.name, LoraConfig(rank=4, alpha=8.0, unembedding=True, seed=3))
    with torch.no_grad():
        adapter.values.normal_(0, 0.05, generator=torch.Generator().manual_seed(1))
    export_adapter(engine, request.node.name, tmp_path / "out", base_model="tiny")
    return adapter, tmp_path / "out"


def test_it_comes_back_with_the_same_weights_and_scale(engine, exported):
    adapter, folder = exported
    again = import_adapter(engine, "again", folder)
    assert torch.equal(again.values, adapter.values)
    assert again.config.scale == adapter.config.scale and again.steps == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peft_type": "IA3"}, "only plain LoRA"),
        ({"r": 5}, "shape"),
        ({"target_modules": ["q_proj"]}, "layers are not"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_no_adapter(engine, exported, change, words):
    _, folder = exported
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RunError, match=words):
        import_adapter(engine, "wrong", folder)
    assert "wrong" not in engine.adapters


def test_a_missing_file_is_named(engine, tmp_path):
    with pytest.raises(RunError, match=r"adapter_config\.json"):
        import_adapter(engine, "none", tmp_path)
