from __future__ import annotations

import pytest
import torch

from tests.unit.engine.reference import PlainModel
from trainers.engine.batch import Datum
from trainers.errors import RunError, RunStopped
from trainers.losses import LOSSES, LossInputs, with_kl


def group_data(seed: int = 0) -> list[Datum]:
    """Two groups below one system prompt, one datum of its own, two equal completions, different lengths."""
    generator = torch.Generator().manual_seed(seed)

    def tokens(count: int) -> list[int]:
        return torch.randint(3, 250, (count,), generator=generator).tolist()

    system = tokens(12)
    data = []
    for length in (9, 14):
        prompt = [*system, *tokens(length)]
        completions = [tokens(count) for count in (5, 1, 11)]
        for completion in [*completions, completions[0]]:
            data.append(_datum([*prompt, *completion[:-1]], completion, generator))
    whole = tokens(30)
    data.append(_datum(whole[:-1], whole[1:], generator))
    return data


def _datum(tokens: list[int], targets: list[int], generator: torch.Generator) -> Datum:
    count = len(targets)
    return Datum(
        tokens,
        targets,
        {
            "logprobs": (-5 + torch.randn(count, generator=generator)).tolist(),
            "advantages": torch.randn(count, generator=generator).tolist(),
            "reference_logprobs": (-5 + torch.randn(count, generator=generator)).tolist(),
        },
    )


def plain_step(engine, data, loss, temperature=1.0):
    plain = PlainModel(engine, "a")
    logprobs = [plain.logprobs(datum, temperature) for datum in data]
    arrays = {
        name: torch.tensor([v for datum in data for v in datum.arrays[name]], dtype=torch.float64)
        for name in data[0].arrays
    }
    bounds = [0]
    for datum in data:
        bounds.append(bounds[-1] + len(datum.targets))
    total = loss(LossInputs(torch.cat(logprobs), arrays, bounds)).total
    total.backward()
    return float(total.detach()), torch.cat(logprobs).detach(), plain.gradient()


LOSSES_TRIED = [*LOSSES.values(), with_kl(LOSSES["ppo"], 0.3)]


@pytest.mark.parametrize("budget", [40, 100_000])
@pytest.mark.parametrize("loss", LOSSES_TRIED, ids=lambda loss: loss.name)
def test_packed_training_equals_the_plain_computation_in_float64(make_engine, loss, budget):
    engine, data = make_engine(torch.float64), group_data()
    _widen(engine)
    engine.tokens_per_pass = budget
    output = engine.forward_backward("a", data, loss)
    total, logprobs, gradient = plain_step(engine, data, loss)
    assert output.loss == pytest.approx(total, rel=1e-10)
    torch.testing.assert_close(torch.cat(output.logprobs), logprobs, rtol=0, atol=1e-10)
    torch.testing.assert_close(engine.adapters["a"].gradient.double(), gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("unembedding", [False, True])
def test_packed_training_equals_the_plain_computation_in_float32(make_engine, unembedding):
    engine, data = make_engine(unembedding=unembedding), group_data()
    engine.forward_backward("a", data, "importance_sampling", temperature=1.3)
    _, _, gradient = plain_step(engine, data, LOSSES["importance_sampling"], temperature=1.3)
    found = engine.adapters["a"].gradient.double()
    assert float((found - gradient).norm() / gradient.norm()) < 2e-5


def test_long_sequences_are_cut_into_blocks_and_stay_equal(make_engine, monkeypatch):
    monkeypatch.setattr("trainers.engine.packing._BLOCK", 6)
    monkeypatch.setattr("trainers.engine.packing._CHUNK", 7)
    engine, data = make_engine(), group_data()
    output = engine.forward_backward("a", data, "ppo")
    total, logprobs, _ = plain_step(engine, data, LOSSES["ppo"])
    assert output.loss == pytest.approx(total, rel=1e-5)
    torch.testing.assert_close(torch.cat(output.logprobs).double(), logprobs, rtol=0, atol=1e-4)


def test_gradients_accumulate_over_calls(make_engine):
    engine, data = make_engine(), group_data()
    engine.forward_backward("a", data, "ppo")
    together = engine.adapters["a"].gradient.clone()
    engine.adapters["a"].gradient.zero_()
    engine.forward_backward("a", data[:3], "ppo")
    engine.forward_backward("a", data[3:], "ppo")
    torch.testing.assert_close(engine.adapters["a"].gradient, together, rtol=1e-4, atol=1e-5)


def test_the_base_without_an_adapter_is_the_plain_model(make_engine):
    engine, data = make_engine(), group_data()
    plain = PlainModel(engine, None)
    for found, datum in zip(engine.logprobs(None, data), data, strict=True):
        torch.testing.assert_close(found.double(), plain.logprobs(datum), rtol=0, atol=1e-4)
    assert not engine.adapters["a"].gradient.any()


def test_entropy_is_that_of_the_model_at_the_scored_positions(make_engine):
    engine, data = make_engine(), group_data()
    plain = PlainModel(engine, "a")
    expected = 0.0
    for datum in data:
        scores = plain.logits(datum.tokens).log_softmax(-1)[-len(datum.targets) :].detach()
        expected -= float((scores.exp() * scores).sum())
    assert engine.forward("a", data).entropy == pytest.approx(expected, rel=1e-5)


def test_adapters_on_one_base_do_not_touch_each_other(make_engine):
    from trainers.engine.lora import LoraConfig

    engine, data = make_engine(), group_data()
    engine.add_adapter("b", LoraConfig(rank=2, alpha=2.0, mlp=False, seed=3))
    alone = engine.forward("a", data).loss
    engine.forward_backward("b", data, "ppo")
    assert engine.forward("a", data).loss == alone
    assert not engine.adapters["a"].gradient.any()
    assert engine.adapters["b"].gradient.any()


def test_a_loss_that_is_not_finite_is_named(make_engine):
    engine, data = make_engine(), group_data()
    broken = Datum(data[0].tokens, data[0].targets, {**data[0].arrays, "advantages": [float("nan")] * 5})
    with pytest.raises(RunError) as caught:
        engine.forward_backward("a", [broken], "ppo")
    assert caught.value.kind == "not_finite"


def test_a_missing_array_is_named(make_engine):
    with pytest.raises(ValueError, match="needs 'logprobs'"):
        make_engine().forward_backward("a", [Datum([1, 2], [2, 3])], "ppo")


@pytest.mark.parametrize("at", [0.2, 0.6])
def test_a_listener_can_stop_a_call_in_the_middle(make_engine, at, monkeypatch):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    engine = make_engine()

    def stop(share: float) -> None:
        if share >= at:
            raise RunStopped

    engine.pulse.listener = stop
    with pytest.raises(RunStopped):
        engine.forward_backward("a", group_data(), "ppo")


def test_progress_reaches_the_end(make_engine, monkeypatch):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    engine, shares = make_engine(), []
    engine.tokens_per_pass = 40
    engine.pulse.listener = shares.append
    engine.forward_backward("a", group_data(), "ppo")
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def _widen(engine) -> None:
    """Make the adapter itself float64, which it never is in use: to compare beyond the rounding of float32."""
    adapter = engine.adapters["a"]
    adapter.values, adapter.gradient = adapter.values.double(), adapter.gradient.double()
    pairs = {}
    for module in adapter.factors:
        pair = []
        for factor in ("A", "B"):
            part, shape = adapter.slices[f"{module}.lora_{factor}"]
            parameter = torch.nn.Parameter(adapter.values[part].view(shape))
            parameter.grad = adapter.gradient[part].view(shape)
            pair.append(parameter)
        pairs[module] = tuple(pair)
    adapter.factors = pairs
