from __future__ import annotations

import math

import pytest
import torch

from tests.unit.engine.reference import PlainModel
from trainers.engine.sampler import SampleRequest, SamplingParams
from trainers.engine.stops import StopStrings

PROMPTS = [[40, 41, 42, 7, 8], [30, 31, 32], [40, 41, 42, 9]]


def test_a_stop_string_ends_a_completion_wherever_tokens_are_cut(make_engine):
    engine = make_engine()
    free = SamplingParams(max_tokens=40, n=4, seed=6)
    whole = [c.tokens for group in engine.sample("a", PROMPTS, free) for c in group]
    # Two bytes in a row of what is sampled: a string that no single token has.
    text = engine.tokenizer.decode(whole[0])
    place = next(i for i in range(8, 30) if text[i : i + 2].isascii() and text[i : i + 2].isprintable())
    stop = text[place : place + 2]
    params = SamplingParams(max_tokens=40, n=4, seed=6, stop_strings=(stop, "never to be seen"))
    ended = [c for group in engine.sample("a", PROMPTS, params) for c in group]
    assert ended[0].stopped
    for completion, tokens in zip(ended, whole, strict=True):
        assert completion.tokens == tokens[: len(completion.tokens)]
        assert completion.stopped == (stop in engine.tokenizer.decode(completion.tokens))
        assert stop not in engine.tokenizer.decode(completion.tokens[:-1])
        assert completion.stop_reason == ("stop" if completion.stopped else "length")
        assert len(completion.logprobs) == len(completion.tokens)


def test_a_stop_string_may_stand_inside_characters_of_several_bytes(make_engine):
    tokenizer = make_engine().tokenizer
    stops = StopStrings(tokenizer, ["é!"])
    tokens = tokenizer("né!", add_special_tokens=False)["input_ids"]
    assert [stops.ended(tokens[: i + 1]) for i in range(len(tokens))] == [False] * (len(tokens) - 1) + [True]
    assert not stops.ended([*tokens, tokens[0]])


def test_the_tokens_of_a_request_do_not_depend_on_what_else_is_sampled(make_engine):
    engine = make_engine()
    request = SampleRequest("a", PROMPTS, SamplingParams(max_tokens=10, n=2, seed=5))
    others = [SampleRequest("a", [[i, 3, 4]], SamplingParams(max_tokens=3 + i, n=3, seed=i)) for i in range(1, 4)]
    alone = engine.sample_many([request])[0].groups
    amid = engine.sample_many([*others[:2], request, others[2]])[2].groups
    assert [[c.tokens for c in group] for group in alone] == [[c.tokens for c in group] for group in amid]


def test_prompts_are_scored_when_asked_for(make_engine):
    engine = make_engine()
    params = SamplingParams(max_tokens=1, n=2, seed=1, prompt_logprobs=True, top_prompt_logprobs=3)
    found = engine.sample_many(
        [SampleRequest("a", PROMPTS, params), SampleRequest("a", PROMPTS, SamplingParams(max_tokens=1, seed=1))]
    )
    assert found[1].prompts == [None, None, None]
    plain = PlainModel(engine, "a")
    for prompt, scores in zip(PROMPTS, found[0].prompts, strict=True):
        expected = plain.logits(prompt).log_softmax(-1).detach()
        assert scores is not None and len(scores.logprobs) == len(scores.top) == len(prompt) - 1
        for place, (logprob, top) in enumerate(zip(scores.logprobs, scores.top, strict=True)):
            assert logprob == pytest.approx(float(expected[place, prompt[place + 1]]), abs=1e-4)
            values, tokens = expected[place].topk(3)
            assert [token for token, _ in top] == tokens.tolist()
            assert [value for _, value in top] == pytest.approx(values.tolist(), abs=1e-4)


def test_the_most_likely_alternatives_are_reported_for_every_sampled_token(make_engine):
    engine = make_engine()
    params = SamplingParams(max_tokens=6, temperature=0, top_logprobs=4)
    for group in engine.sample("a", PROMPTS, params):
        (completion,) = group
        assert len(completion.top) == len(completion.tokens) == 6
        for token, logprob, top in zip(completion.tokens, completion.logprobs, completion.top, strict=True):
            assert len(top) == 4 and top[0][0] == token
            assert top[0][1] == pytest.approx(logprob, abs=1e-5)
            assert [value for _, value in top] == sorted((value for _, value in top), reverse=True)
            assert sum(math.exp(value) for _, value in top) < 1.0001


def test_empty_stop_strings_and_prompts_are_refused(make_engine):
    with pytest.raises(ValueError, match="stop_strings"):
        SamplingParams(max_tokens=1, stop_strings=("",))
    with pytest.raises(ValueError, match="at least one token"):
        make_engine().sample("a", [[]], SamplingParams(max_tokens=1))


def test_bfloat16_samples_and_trains_close_to_float32(make_engine):
    from tests.unit.engine.test_training import group_data

    exact, half = make_engine(), make_engine(torch.bfloat16)
    data = group_data()
    outputs = [engine.forward_backward("a", data, "importance_sampling") for engine in (exact, half)]
    for one, other in zip(outputs[0].logprobs, outputs[1].logprobs, strict=True):
        assert float((one - other.float()).abs().mean()) < 0.1
    gradients = [engine.adapters["a"].gradient for engine in (exact, half)]
    assert gradients[1].dtype == torch.float32
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 0.15
    completion = half.sample("a", PROMPTS, SamplingParams(max_tokens=6, n=2, seed=1))[0][0]
    assert len(completion.tokens) == 6 and all(value <= 0 for value in completion.logprobs)
