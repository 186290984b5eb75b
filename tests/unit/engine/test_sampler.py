from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.unit.engine.reference import PlainModel
from trainers.engine.batch import Datum
from trainers.engine.drawing import draw, uniforms
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunStopped

SYSTEM = list(range(40, 60))
PROMPTS = [[*SYSTEM, 7, 8, 9], [*SYSTEM, 11], [30, 31, 32, 33, 34], [*SYSTEM, 7, 8, 9]]


def scored(engine, adapter, prompt, completion, temperature=1.0):
    datum = Datum([*prompt, *completion.tokens[:-1]], completion.tokens)
    return engine.logprobs(adapter, [datum], temperature=temperature)[0]


def test_greedy_sampling_takes_the_most_likely_token_each_time(make_engine):
    engine = make_engine()
    plain = PlainModel(engine, "a")
    for prompt, group in zip(
        PROMPTS, engine.sample("a", PROMPTS, SamplingParams(max_tokens=40, temperature=0)), strict=True
    ):
        tokens = list(prompt)
        for token in group[0].tokens:
            assert int(plain.logits(tokens)[-1].argmax()) == token
            tokens.append(token)
        assert len(group[0].tokens) == 40 and not group[0].stopped


def test_sampled_logprobs_are_those_of_training(make_engine):
    engine = make_engine()
    # Most rows end at different times, so rows and prompts leave the batch on the way.
    params = SamplingParams(
        max_tokens=70, n=5, stop_tokens=tuple(range(3, 12)), seed=4, temperature=0.9, logprob_temperature=0.9
    )
    lengths = set()
    for prompt, group in zip(PROMPTS, engine.sample("a", PROMPTS, params), strict=True):
        assert len(group) == 5
        for completion in group:
            lengths.add(len(completion.tokens))
            expected = scored(engine, "a", prompt, completion, 0.9)
            torch.testing.assert_close(torch.tensor(completion.logprobs), expected, rtol=0, atol=2e-5)
    assert len(lengths) > 5 and max(lengths) > 33


def test_a_completion_ends_with_its_stop_token_and_has_it(make_engine):
    stops = tuple(range(3, 60))
    groups = make_engine().sample("a", PROMPTS, SamplingParams(max_tokens=30, n=4, stop_tokens=stops, seed=1))
    for completion in (completion for group in groups for completion in group):
        assert not set(completion.tokens[:-1]) & set(stops)
        assert completion.stopped == (completion.tokens[-1] in stops)
        assert completion.stopped or len(completion.tokens) == 30
        assert len(completion.logprobs) == len(completion.entropies) == len(completion.tokens) > 0


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others(make_engine):
    engine = make_engine()
    one, again, other = (engine.sample("a", PROMPTS, SamplingParams(max_tokens=12, n=3, seed=s)) for s in (1, 1, 2))
    assert one == again
    assert [c.tokens for g in one for c in g] != [c.tokens for g in other for c in g]
    assert one[0][0].tokens != one[0][1].tokens
    assert one[0][0].tokens != one[3][0].tokens  # the same prompt at another place draws its own numbers


def test_a_completion_does_not_depend_on_the_waves_it_is_sampled_in(make_engine, monkeypatch):
    engine, params = make_engine(), SamplingParams(max_tokens=12, n=5, seed=3, stop_tokens=(2,))
    whole = engine.sample("a", PROMPTS, params)
    monkeypatch.setattr("trainers.engine.sampler._KV_BYTES", 7 * 12 * engine.kv_bytes_per_token)
    engine.tokens_per_pass = 6
    cut = engine.sample("a", PROMPTS, params)
    assert [[c.tokens for c in group] for group in whole] == [[c.tokens for c in group] for group in cut]


def test_without_a_seed_the_adapter_draws_one_after_the_other(make_engine):
    first, second = make_engine(), make_engine()
    params = SamplingParams(max_tokens=8)
    one, two = (first.sample("a", PROMPTS[:1], params)[0][0].tokens for _ in range(2))
    assert one != two
    assert [second.sample("a", PROMPTS[:1], params)[0][0].tokens for _ in range(2)] == [one, two]


def test_tokens_are_drawn_as_often_as_their_probability_says():
    probabilities = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05])
    count = 4000
    uniform = uniforms(7, [(0, i) for i in range(count)], 1)[:, 0]
    drawn = draw(probabilities.log().repeat(count, 1), uniform, temperature=1.0)
    seen = Counter(drawn.tokens.tolist())
    for token, probability in enumerate(probabilities.tolist()):
        assert abs(seen[token] / count - probability) < 0.03
    assert seen[1] == 0


@pytest.mark.parametrize("vocabulary", [3, 255, 256, 257, 1000])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(vocabulary):
    logits = torch.full((2, vocabulary), float("-inf"))
    logits[:, 1] = 0.0
    drawn = draw(logits, torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64), temperature=1.0)
    assert drawn.tokens.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("limits", "allowed"), [({"top_k": 2}, {0, 2}), ({"top_p": 0.7}, {0, 2}), ({"top_p": 0.4}, {0})]
)
def test_narrowed_sampling_draws_only_what_is_left(limits, allowed):
    logits = torch.tensor([0.5, 0.05, 0.3, 0.15]).log().repeat(500, 1)
    uniform = uniforms(1, [(0, i) for i in range(500)], 1)[:, 0]
    drawn = draw(logits.clone(), uniform, temperature=1.0, **limits)
    assert set(drawn.tokens.tolist()) == allowed
    torch.testing.assert_close(drawn.logprobs, logits[0][drawn.tokens])


def test_log_probabilities_are_at_their_own_temperature():
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    drawn = draw(logits.clone(), torch.tensor([0.5]), temperature=0.0, logprob_temperature=2.0)
    scaled = (logits / 2).log_softmax(-1)
    torch.testing.assert_close(drawn.logprobs, scaled[:, 0])
    torch.testing.assert_close(drawn.entropy, -(scaled.exp() * scaled).sum(-1))


def test_a_listener_can_stop_sampling(make_engine, monkeypatch):
    monkeypatch.setattr("trainers.engine.pulse._INTERVAL_S", 0.0)
    engine, shares = make_engine(), []

    def listen(share: float) -> None:
        shares.append(share)
        if share > 0.4:
            raise RunStopped

    engine.pulse.listener = listen
    with pytest.raises(RunStopped):
        engine.sample("a", PROMPTS, SamplingParams(max_tokens=20, n=2, seed=1))
    assert len(shares) < 12


@pytest.mark.parametrize("bad", [{"max_tokens": 0}, {"n": 0}, {"top_p": 0.0}, {"top_k": -1}, {"temperature": -1.0}])
def test_impossible_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SamplingParams(**{"max_tokens": 4, **bad})
