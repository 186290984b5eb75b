from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.unit.engine.test_training import group_data
from trainers.engine.batch import Datum
from trainers.engine.checkpoint import load_state, save_state
from trainers.engine.engine import Engine
from trainers.engine.export import export_adapter, export_merged
from trainers.engine.full import FullConfig
from trainers.engine.optimizer import AdamParams
from trainers.engine.sampler import SampleRequest, SamplingParams
from trainers.engine.training import TrainRequest


def plain_gradient(engine: Engine, data: list[Datum]) -> dict[str, torch.Tensor]:
    """Of cross_entropy, by autograd through transformers' own model."""
    model = AutoModelForCausalLM.from_pretrained(engine.path, dtype=torch.float32).eval()
    for datum in data:
        scores = model(torch.tensor([list(datum.tokens)])).logits[0].log_softmax(-1)[-len(datum.targets) :]
        (-scores.gather(1, torch.tensor(list(datum.targets))[:, None]).sum()).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_every_weight_gets_the_gradient_of_the_plain_model(make_engine):
    engine = make_engine()
    full = engine.add_full("whole")
    data = [Datum(datum.tokens, datum.targets) for datum in group_data()]
    engine.forward_backward("whole", data, "cross_entropy")
    expected = plain_gradient(engine, data)
    found = full.named(full.gradient)
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        assert float((found[name] - wanted).norm() / wanted.norm()) < 2e-5, name
    assert not engine.adapters["a"].gradient.any()


def test_it_learns_while_the_base_and_the_adapters_stay(make_engine):
    engine = make_engine()
    engine.add_full("whole")
    data = [Datum(datum.tokens, datum.targets) for datum in group_data()]
    before = engine.forward(None, data).loss, engine.forward("a", data).loss
    for _ in range(5):
        loss = engine.forward_backward("whole", data, "cross_entropy").loss
        engine.optim_step("whole", AdamParams(0.01))
    assert loss < 0.6 * before[0]
    assert (engine.forward(None, data).loss, engine.forward("a", data).loss) == before


def test_full_weights_and_adapters_answer_in_one_call(make_engine):
    engine = make_engine()
    engine.add_full("whole")
    data = group_data()
    outputs = engine.forward_backward_many([TrainRequest("whole", data, "ppo"), TrainRequest("a", data, "ppo")])
    assert outputs[0].loss == pytest.approx(engine.forward(None, data, "ppo").loss, rel=1e-5)
    assert outputs[1].loss == pytest.approx(engine.forward("a", data, "ppo").loss, rel=1e-5)
    params = SamplingParams(max_tokens=5, seed=1)
    found = engine.sample_many([SampleRequest(name, [[5, 6]], params) for name in ("whole", None)])
    assert found[0].groups[0][0].tokens == found[1].groups[0][0].tokens


def test_a_full_snapshot_and_its_state_come_back(make_engine, tmp_path):
    engine, data = make_engine(), group_data()
    engine.add_full("whole", FullConfig(seed=3))
    engine.forward_backward("whole", data, "ppo")
    engine.optim_step("whole", AdamParams(0.01))
    engine.snapshot("whole", "whole@1")
    loss = engine.forward("whole", data, "ppo").loss
    save_state(engine, "whole", tmp_path, {"step": 1})
    with pytest.raises(ValueError, match="frozen"):
        save_state(engine, "whole@1", tmp_path)
    for name in ("whole", "again"):
        if name == "again":
            assert load_state(engine, "again", tmp_path) == {"step": 1}
        engine.forward_backward(name, data, "ppo")
        engine.optim_step(name, AdamParams(0.01))
    assert torch.equal(engine.adapters["whole"].values, engine.adapters["again"].values)
    assert engine.forward("whole@1", data, "ppo").loss == loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_exported_as_a_whole_model_that_transformers_reads(make_engine, tmp_path, dtype):
    engine = make_engine(dtype)
    engine.add_full("whole")
    for step in range(2):
        engine.forward_backward("whole", group_data(step), "ppo")
        engine.optim_step("whole", AdamParams(0.01))
    assert engine.adapters["whole"].values.dtype == torch.float32
    assert export_merged(engine, "whole", tmp_path) < (1e-4 if dtype == torch.float32 else 0.3)
    with pytest.raises(ValueError, match="merged"):
        export_adapter(engine, "whole", tmp_path, base_model="tiny")
    again = Engine.load(tmp_path, dtype=dtype, threads=1)
    assert again.forward(None, group_data(), "ppo").loss == pytest.approx(
        engine.forward("whole", group_data(), "ppo").loss, rel=1e-4 if dtype == torch.float32 else 0.05
    )


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_recomputed_layers_give_the_same_gradient(make_engine, kind):
    engine, data = make_engine(unembedding=True), group_data()
    name = "a"
    if kind == "full":
        engine.add_full("whole")
        name = "whole"
    engine.tokens_per_pass = 60
    engine.forward_backward(name, data, "ppo")
    kept = engine.adapters[name].gradient.clone()
    engine.adapters[name].gradient.zero_()
    engine.recompute.on = True
    engine.forward_backward(name, data, "ppo")
    torch.testing.assert_close(engine.adapters[name].gradient, kept, rtol=1e-6, atol=1e-6)
    engine.recompute.on = False
    assert "forward" not in vars(engine.recompute.layers[0])


def test_recomputed_layers_keep_less_for_the_backward_pass(make_engine):
    engine, kept = make_engine(), []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[-1] += tensor.numel()
        return tensor

    for engine.recompute.on in (False, True):
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            engine.forward_backward("a", group_data(), "ppo")
    assert kept[1] < 0.5 * kept[0]
