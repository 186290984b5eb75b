from __future__ import annotations

import pytest
import torch

from trainers.engine.batch import Datum
from trainers.engine.linear import ONEDNN
from trainers.engine.lora import LoraConfig
from trainers.engine.optimizer import AdamParams
from trainers.engine.sampler import SampleRequest, SamplingParams
from trainers.errors import RunStopped

PROMPTS = [[5, 6, 7, 8], [9, 10], [5, 6, 30], [40]]
LARGE = SamplingParams(max_tokens=34, n=4, seed=3, stop_tokens=(2, 3, 4))
pytestmark = pytest.mark.skipif(not ONEDNN, reason="this PyTorch has no oneDNN to lay weights out")


def flat(groups):
    return [completion for group in groups for completion in group]


def without_copies(engine, requests):
    engine.ready.possible = False
    try:
        return [sampled.groups for sampled in engine.sample_many(requests)]
    finally:
        engine.ready.possible = True


@pytest.mark.parametrize("name", ["a", None])
@pytest.mark.parametrize("unembedding", [False, True])
def test_sampling_from_copies_gives_the_logprobs_of_training(make_engine, name, unembedding):
    engine = make_engine(unembedding=unembedding)
    assert engine.ready.pays(len(PROMPTS) * LARGE.n, LARGE.max_tokens)
    groups = engine.sample(name, PROMPTS, LARGE)
    plain = without_copies(engine, [SampleRequest(name, PROMPTS, LARGE)])[0]
    assert [one.tokens for one in flat(groups)] == [one.tokens for one in flat(plain)]
    for prompt, group in zip(PROMPTS, groups, strict=True):
        data = [Datum([*prompt, *one.tokens[:-1]], one.tokens) for one in group]
        for one, expected in zip(group, engine.logprobs(name, data), strict=True):
            torch.testing.assert_close(torch.tensor(one.logprobs), expected, rtol=0, atol=1e-5)


def test_several_adapters_share_the_copies_of_the_base_weights(make_engine):
    engine = make_engine()
    other = engine.add_adapter("b", LoraConfig(rank=2))
    with torch.no_grad():
        other.values.add_(0.05)
    requests = [SampleRequest(name, PROMPTS, LARGE) for name in ("a", "b", None)]
    found = [sampled.groups for sampled in engine.sample_many(requests)]
    for together, plain in zip(found, without_copies(engine, requests), strict=True):
        for one, expected in zip(flat(together), flat(plain), strict=True):
            assert one.tokens == expected.tokens
            torch.testing.assert_close(
                torch.tensor(one.logprobs), torch.tensor(expected.logprobs), rtol=1e-5, atol=1e-5
            )


def test_the_same_call_gives_the_same_bits_whatever_was_sampled_before(make_engine):
    fresh, used = make_engine(), make_engine()
    used.sample(None, PROMPTS, LARGE)
    used.sample("a", PROMPTS[:1], SamplingParams(max_tokens=2, seed=1))
    assert fresh.sample("a", PROMPTS, LARGE) == used.sample("a", PROMPTS, LARGE)
    assert fresh.sample(None, PROMPTS, LARGE) == used.sample(None, PROMPTS, LARGE)


def test_a_change_of_the_weights_is_sampled_from_at_once(make_engine):
    engine = make_engine()
    engine.add_full("whole")
    base = engine.sample(None, PROMPTS, LARGE)
    for name in ("a", "whole"):
        assert (engine.sample(name, PROMPTS, LARGE) == base) == (name == "whole")
        engine.forward_backward(name, [Datum([5, 6, 7], [6, 7, 8], {"weights": [1.0] * 3})], "cross_entropy")
        engine.optim_step(name, AdamParams(learning_rate=0.05))
        groups = engine.sample(name, PROMPTS, LARGE)
        data = [Datum([*PROMPTS[0], *one.tokens[:-1]], one.tokens) for one in groups[0]]
        for one, expected in zip(groups[0], engine.logprobs(name, data), strict=True):
            torch.testing.assert_close(torch.tensor(one.logprobs), expected, rtol=0, atol=2e-5)
    assert engine.sample(None, PROMPTS, LARGE) == base


def test_the_copies_are_out_of_the_way_after_a_call_even_one_that_is_stopped(make_engine, monkeypatch):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    engine = make_engine()

    def stop(share: float) -> None:
        assert any(layer.ready is not None for layer in engine.ready.layers)
        raise RunStopped

    engine.pulse.listener = stop
    with pytest.raises(RunStopped):
        engine.sample("a", PROMPTS, LARGE)
    assert all(layer.ready is None for layer in engine.ready.layers)


def test_small_calls_and_models_in_other_precision_use_the_weights_as_they_are(make_engine):
    engine = make_engine()
    assert not engine.ready.pays(4, 1000)
    assert not engine.ready.pays(64, 4)
    assert engine.ready.pays(64, 16)
    assert not make_engine(torch.float64).ready.pays(64, 1000)
