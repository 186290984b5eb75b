from __future__ import annotations

import pytest
import torch

from tests.unit.engine.test_training import group_data
from trainers.engine.batch import Datum
from trainers.engine.lora import LoraConfig
from trainers.engine.optimizer import AdamParams
from trainers.engine.sampler import SampleRequest, SamplingParams
from trainers.engine.training import TrainRequest

CONFIGS = {
    "b": LoraConfig(rank=2, alpha=2.0, mlp=False, seed=3),
    "c": LoraConfig(rank=7, alpha=9.0, attention=False, seed=4, rslora=True),
    "d": LoraConfig(rank=4, alpha=8.0, unembedding=True, seed=5),
}
NAMES = ["a", *CONFIGS]


@pytest.fixture
def engine(make_engine):
    engine = make_engine()
    for name, config in CONFIGS.items():
        adapter = engine.add_adapter(name, config)
        with torch.no_grad():
            adapter.values.add_(0.1 * torch.randn(adapter.values.shape, generator=torch.Generator().manual_seed(7)))
    return engine


def requests() -> list[TrainRequest]:
    """Different losses, temperatures and batches; two requests for one adapter."""
    return [
        TrainRequest("a", group_data(0), "ppo"),
        TrainRequest("b", group_data(0), "ppo"),
        TrainRequest("c", group_data(1), "importance_sampling", temperature=1.3),
        TrainRequest("d", group_data(2), "cispo", {"clip_low_threshold": 0.5, "clip_high_threshold": 1.5}),
        TrainRequest("a", group_data(3)[:2], "gspo", temperature=0.7),
    ]


@pytest.mark.parametrize("budget", [60, 100_000])
def test_training_together_equals_training_each_alone(engine, budget):
    alone = [
        engine.forward_backward(r.adapter, r.batch, r.loss, r.config, temperature=r.temperature) for r in requests()
    ]
    expected = {name: engine.adapters[name].gradient.clone() for name in NAMES}
    for name in NAMES:
        engine.adapters[name].gradient.zero_()
    engine.tokens_per_pass = budget
    together = engine.forward_backward_many(requests())
    for one, other in zip(alone, together, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.entropy == pytest.approx(one.entropy, rel=1e-5)
        assert other.tokens == one.tokens
        assert other.sums == pytest.approx(one.sums, rel=1e-3, abs=1e-5)
        for values, wanted in zip(other.logprobs, one.logprobs, strict=True):
            torch.testing.assert_close(values, wanted, rtol=0, atol=2e-5)
    for name in NAMES:
        found = engine.adapters[name].gradient
        assert float((found - expected[name]).norm() / expected[name].norm()) < 1e-5


def test_the_same_requests_give_the_same_bits(engine):
    found = []
    for _ in range(2):
        engine.forward_backward_many(requests())
        found.append([engine.adapters[name].gradient.clone() for name in NAMES])
        for name in NAMES:
            engine.adapters[name].gradient.zero_()
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_the_tokens_of_a_pass_are_divided_among_the_requests(engine):
    outputs = engine.forward_many(requests())
    assert all(output.passed > 0 for output in outputs)
    same = engine.forward_many([TrainRequest("a", group_data(0)), TrainRequest("a", group_data(0))])
    assert sum(output.passed for output in same) == engine.forward("a", group_data(0)).passed


def test_sampling_together_equals_sampling_each_alone(engine):
    prompts = [[40, 41, 42, 7], [30, 31, 32, 33, 34], [40, 41, 42, 7]]
    asked = [
        SampleRequest("d", prompts, SamplingParams(max_tokens=9, n=3, seed=1, stop_tokens=(2, 5, 9, 77))),
        SampleRequest(None, prompts[:1], SamplingParams(max_tokens=5, n=2, seed=2, temperature=0.7)),
        SampleRequest("a", prompts[1:], SamplingParams(max_tokens=40, n=2, seed=3, stop_tokens=tuple(range(60)))),
        SampleRequest("b", prompts, SamplingParams(max_tokens=12, temperature=0)),
        SampleRequest("c", prompts[:2], SamplingParams(max_tokens=12, n=2, seed=4, top_k=5, top_p=0.9)),
    ]
    for request, found in zip(asked, engine.sample_many(asked), strict=True):
        alone = engine.sample(request.adapter, request.prompts, request.params)
        for group, wanted in zip(found.groups, alone, strict=True):
            for one, other in zip(group, wanted, strict=True):
                assert one.tokens == other.tokens and one.stopped == other.stopped
                assert one.logprobs == pytest.approx(other.logprobs, abs=3e-5)


def test_adapters_join_and_leave_between_steps(engine):
    engine.forward_backward_many(requests())
    for name in NAMES:
        engine.optim_step(name, AdamParams(0.01))
    engine.remove_adapter("b")
    engine.add_adapter("e", LoraConfig(rank=3, alpha=3.0))
    with pytest.raises(ValueError, match="already"):
        engine.add_adapter("e", LoraConfig())
    outputs = engine.forward_backward_many([TrainRequest("e", group_data(0), "ppo"), *requests()[2:]])
    assert len(outputs) == 4 and engine.adapters["e"].gradient.any()


def test_a_snapshot_stays_as_it_was_while_the_adapter_trains_on(engine):
    params = SamplingParams(max_tokens=8, n=2, seed=1, temperature=0.8)
    prompts = [[40, 41, 42, 7]]
    before = engine.sample("a", prompts, params)
    engine.snapshot("a", "a@1")
    engine.forward_backward("a", group_data(0), "ppo")
    engine.optim_step("a", AdamParams(0.1))
    found = engine.sample_many([SampleRequest("a@1", prompts, params), SampleRequest("a", prompts, params)])
    assert [c.tokens for c in found[0].groups[0]] == [c.tokens for c in before[0]]
    assert [c.tokens for c in found[1].groups[0]] != [c.tokens for c in before[0]]
    with pytest.raises(ValueError, match="frozen"):
        engine.forward_backward("a@1", group_data(0), "ppo")
    with pytest.raises(ValueError, match="frozen"):
        engine.optim_step("a@1", AdamParams())
    with pytest.raises(ValueError, match="already"):
        engine.snapshot("a", "a@1")
    engine.remove_adapter("a@1")
    assert "a@1" not in engine.adapters


def test_several_targets_at_each_position_are_scored_and_weighted(engine):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 250, (12,), generator=generator).tolist()
    targets = torch.randint(3, 250, (5, 3), generator=generator).tolist()
    weights = torch.rand(5, 3, generator=generator).tolist()
    wide = engine.forward_backward("a", [Datum(tokens, targets, {"weights": weights})], "cross_entropy")
    gradient = engine.adapters["a"].gradient.clone()
    engine.adapters["a"].gradient.zero_()
    columns = [Datum(tokens, [row[k] for row in targets], {"weights": [row[k] for row in weights]}) for k in range(3)]
    narrow = engine.forward_backward("a", columns, "cross_entropy")
    assert wide.logprobs[0].shape == (5, 3)
    torch.testing.assert_close(wide.logprobs[0], torch.stack(narrow.logprobs, dim=1), rtol=0, atol=1e-5)
    assert wide.loss == pytest.approx(narrow.loss, rel=1e-5)
    torch.testing.assert_close(engine.adapters["a"].gradient, gradient, rtol=1e-4, atol=1e-6)
    assert wide.entropy == pytest.approx(narrow.entropy / 3, rel=1e-5)


def test_several_targets_are_refused_where_they_mean_nothing(engine):
    arrays = {"logprobs": [[0.0, 0.0]], "advantages": [[1.0, 1.0]]}
    with pytest.raises(ValueError, match="takes one"):
        engine.forward_backward("a", [Datum([1, 2], [[3, 4]], arrays)], "ppo")
    for targets, given in (([[3, 4], [5]], {}), ([[3, 4], 5], {}), ([[3, 4]], {"weights": [1.0]})):
        with pytest.raises(ValueError, match="shape of the targets"):
            Datum([1, 2], targets, given)
