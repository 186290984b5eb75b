"""Signs that a run goes wrong are told once, with what to do, and not told of runs that go well."""

from __future__ import annotations

import json

import pytest

from trainers.recipes.hints import AGAIN, WINDOW, Watch
from trainers.runtime import events

GOOD = {
    "train/reward": 0.4,
    "train/accuracy": 0.4,
    "train/truncated": 0.1,
    "train/zero_variance_groups": 1.0,
    "train/clip_fraction": 0.05,
    "train/entropy": 1.0,
    "train/logprob_mismatch": 1e-5,
    "system/step_s": 1.0,
}


@pytest.fixture
def watch(make_context):
    return Watch(make_context())


def hints(watch: Watch) -> list[dict]:
    return watch._ctx.of("hint")


def steps(watch: Watch, count: int, first: int = 1, **values: float) -> None:
    changed = GOOD | {f"train/{name}": value for name, value in values.items()}
    for step in range(first, first + count):
        watch.stepped(step, changed)


def test_a_run_that_goes_well_is_left_alone(watch):
    steps(watch, 30)
    watch.measured(0, {"eval/accuracy": 0.3, "eval/completion_tokens": 20.0})
    watch.measured(30, {"eval/accuracy": 0.5, "eval/completion_tokens": 25.0})
    assert not hints(watch)


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        ({"truncated": 0.8}, "truncation", "80% of the completions were cut at 6 tokens"),
        ({"zero_variance_groups": 4.0}, "zero_variance_groups", "nearly none is right"),
        ({"zero_variance_groups": 4.0, "accuracy": 1.0}, "zero_variance_groups", "nearly all completions are right"),
        ({"clip_fraction": 0.6}, "clipping", "60% of the tokens were clipped"),
        ({"logprob_mismatch": 0.5}, "mismatch", "disagree by 0.5 nats"),
    ],
)
def test_a_sign_that_lasts_is_told_with_what_to_do(watch, values, code, words):
    steps(watch, WINDOW - 1, **values)
    assert not hints(watch), "a few steps may be chance"
    steps(watch, 1, WINDOW, **values)
    (hint,) = hints(watch)
    assert hint["code"] == code and words in hint["text"] and hint["advice"].endswith(".") and hint["field"]
    assert events.make(**hint)["code"] == code, "the journal takes it"
    assert words in watch._ctx.of("log")[-1]["text"]


def test_a_hint_is_repeated_only_after_a_while(watch):
    steps(watch, WINDOW + AGAIN - 1, truncated=0.9)
    assert len(hints(watch)) == 1
    steps(watch, 1, WINDOW + AGAIN, truncated=0.9)
    assert len(hints(watch)) == 2


def test_narrowed_choices_are_told_against_the_first_step(watch):
    steps(watch, 1, entropy=2.0)
    steps(watch, WINDOW, 2, entropy=0.1)
    assert hints(watch)[0]["code"] == "entropy" and "from 2 to 0.1 nats" in hints(watch)[0]["text"]


def test_a_reward_that_rises_while_accuracy_falls_is_told(watch):
    watch.measured(0, {"eval/accuracy": 0.5, "eval/completion_tokens": 20.0})
    steps(watch, 5, reward=0.4)
    steps(watch, 5, 6, reward=0.9)
    watch.measured(10, {"eval/accuracy": 0.3, "eval/completion_tokens": 21.0})
    (hint,) = hints(watch)
    assert hint["code"] == "reward_hacking" and "from 50% to 30%" in hint["text"]


def test_answers_that_grow_without_getting_better_are_told(watch):
    steps(watch, 5, reward=0.4)
    watch.measured(5, {"eval/accuracy": 0.5, "eval/completion_tokens": 20.0})
    steps(watch, 5, 6, reward=0.9)
    watch.measured(10, {"eval/accuracy": 0.5, "eval/completion_tokens": 55.0})
    assert [hint["code"] for hint in hints(watch)] == ["length_drift"]


def test_longer_answers_that_are_better_are_no_sign(watch):
    steps(watch, 5, reward=0.4)
    watch.measured(5, {"eval/accuracy": 0.5, "eval/completion_tokens": 20.0})
    steps(watch, 5, 6, reward=0.9)
    watch.measured(10, {"eval/accuracy": 0.8, "eval/completion_tokens": 55.0})
    assert not hints(watch)


def test_what_it_remembers_survives_a_checkpoint(watch, make_context):
    watch.measured(0, {"eval/accuracy": 0.5, "eval/completion_tokens": 20.0})
    steps(watch, WINDOW - 1, truncated=0.9)
    again = Watch(make_context())
    again.remember(json.loads(json.dumps(watch.memory())))
    for one in (watch, again):
        steps(one, 1, WINDOW, truncated=0.9)
    assert hints(watch) == hints(again) and len(hints(again)) == 1
