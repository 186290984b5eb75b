from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trainers.errors import RewardError
from trainers.recipes.context import ScoredInput
from trainers.rewards.sandbox import Sandbox
from trainers.rewards.scorer import Scorer, needs_answer, row_problem, try_reward
from trainers.rewards.spec import RewardSpec


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as box:
        yield box


def spec(*components: dict[str, Any]) -> RewardSpec:
    return RewardSpec.model_validate({"components": components})


def python(body: str, **more: Any) -> dict[str, Any]:
    return {"kind": "python", "code": f"def reward(prompt, completion, answer, row):\n    {body}", **more}


def sample(completion: str, answer: str | None = "7", prompt: str = "What is 3 + 4?", **row: Any) -> ScoredInput:
    return ScoredInput(prompt=prompt, completion=completion, answer=answer, row=row)


def values(sandbox: Sandbox, component: dict[str, Any], *samples: ScoredInput) -> list[float]:
    return [score.reward for score in Scorer(spec(component), sandbox=sandbox).score(samples)]


def error_of(sandbox: Sandbox, component: dict[str, Any], *samples: ScoredInput) -> RewardError:
    with pytest.raises(RewardError) as caught:
        Scorer(spec(component), sandbox=sandbox).score(samples or [sample("7"), sample("8", prompt="What is 4 + 4?")])
    return caught.value


def test_exact_compares_whole_completions(sandbox: Sandbox) -> None:
    assert values(sandbox, {"kind": "exact"}, sample(" 7\n"), sample("7."), sample("")) == [1, 0, 0]


def test_exact_can_ignore_case(sandbox: Sandbox) -> None:
    rows = sample("paris", "Paris"), sample("PARIS", "Paris")
    assert values(sandbox, {"kind": "exact", "ignore_case": True}, *rows) == [1, 1]
    assert values(sandbox, {"kind": "exact"}, *rows) == [0, 0]


def test_exact_compares_what_the_pattern_finds_last(sandbox: Sandbox) -> None:
    component = {"kind": "exact", "extract": r"<answer>(.*?)</answer>"}
    rows = (
        sample("<answer>6</answer> no <answer>7</answer>"),
        sample("<answer>7</answer> or <answer>6</answer>"),
        sample("7"),
    )
    assert values(sandbox, component, *rows) == [1, 0, 0]


def test_exact_accepts_the_final_answer_of_a_worked_solution(sandbox: Sandbox) -> None:
    assert values(sandbox, {"kind": "exact"}, sample("7", "3 + 4 = 7\n#### 7")) == [1]


def test_numeric_takes_the_last_or_first_number_within_the_tolerance(sandbox: Sandbox) -> None:
    rows = sample("3 + 4 = 7"), sample("7 because 3 + 4"), sample("7.05"), sample("none")
    assert values(sandbox, {"kind": "numeric"}, *rows) == [1, 0, 0, 0]
    assert values(sandbox, {"kind": "numeric", "which": "first", "tolerance": 0.1}, *rows) == [0, 1, 1, 0]
    assert values(sandbox, {"kind": "numeric"}, sample("1,007", "so\n#### 1007")) == [1]


def test_pattern_searches_or_matches_the_whole(sandbox: Sandbox) -> None:
    rows = sample("abc"), sample("b"), sample("c")
    assert values(sandbox, {"kind": "pattern", "pattern": "b"}, *rows) == [1, 1, 0]
    assert values(sandbox, {"kind": "pattern", "pattern": "b", "whole": True}, *rows) == [0, 1, 0]


def test_length_is_full_inside_and_falls_outside(sandbox: Sandbox) -> None:
    rows = [sample("x" * n) for n in (0, 5, 10, 20, 30, 40, 100)]
    assert values(sandbox, {"kind": "length", "minimum": 10, "maximum": 20}, *rows) == [0, 0.5, 1, 1, 0.5, 0, 0]


def test_a_python_function_sees_prompt_completion_answer_and_row(sandbox: Sandbox) -> None:
    component = python("return len(prompt) + len(completion) + len(answer) + row['extra']")
    assert values(sandbox, component, sample("ab", "abc", "p", extra=10)) == [16]


@pytest.mark.parametrize(
    "code",
    [
        "def reward(completion, answer):\n return float(completion == answer)",
        "def reward(completion, **rest):\n return float(completion == rest['answer'])",
        "def reward(*given):\n return float(given[1] == given[2])",
        "reward = lambda answer, completion, weight=1: weight * (completion == answer)",
        "class R:\n def __call__(self, completion, answer):\n  return completion == answer\nreward = R()",
    ],
)
def test_a_python_function_asks_for_what_it_needs(sandbox: Sandbox, code: str) -> None:
    assert values(sandbox, {"kind": "python", "code": code}, sample("7"), sample("8")) == [1, 0]


def test_texts_of_any_kind_reach_the_function_unharmed(sandbox: Sandbox) -> None:
    text = "数学\n\u2028\x00\ud83d \U0001f600"
    assert values(sandbox, python(f"return completion == {text!r}"), sample(text)) == [1]


def test_the_reward_is_the_weighted_sum_and_every_part_is_kept(sandbox: Sandbox) -> None:
    reward = spec(
        {"kind": "numeric"},
        {"kind": "length", "maximum": 2, "weight": 0.5, "name": "short"},
        {"kind": "pattern", "pattern": "sorry", "weight": -1},
    )
    right, wrong = Scorer(reward, sandbox=sandbox).score([sample("7"), sample("sorry 8")])
    assert right.reward == 1.5 and right.parts == {"numeric": 1, "short": 1, "pattern": 0}
    assert (right.accurate, wrong.accurate) == (True, False)
    assert wrong.reward == -1 and wrong.parts == {"numeric": 0, "short": 0, "pattern": 1}


def test_no_rows_give_no_scores(sandbox: Sandbox) -> None:
    assert Scorer(spec(python("return 1")), sandbox=sandbox).score([]) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "returned None"),
        ("return 'yes'", "returned 'yes' (a str)"),
        ("return [1.0, 0.0]", "returned [1.0, 0.0] (a list)"),
        ("return {'score': 1}", "returned {'score': 1} (a dict)"),
        ("return 1j", "returned 1j (a complex)"),
        ("return float('nan')", "gave nan"),
        ("return float('-inf')", "gave -inf"),
        ("return 10 ** 400", "too large for a float"),
        ("return 1 / 0", "raised ZeroDivisionError on line 2"),
        ("return row['missing']", "raised KeyError on line 2"),
        ("import sys; sys.exit()", "raised SystemExit on line 2"),
        ("import os; os._exit(0)", "gave 1 values for 2 completions"),
        ("return [0] * 10 ** 9", "ran out of the sandbox's memory"),
        ("return type('R', (), {'__repr__': lambda s: 1 / 0})()", "returned something that cannot be shown"),
        ("return type('F', (float,), {'__float__': lambda s: 1 / 0})(1.0)", "(a F)"),
        ("raise type('E', (Exception,), {'__str__': lambda s: 1 / 0})()", "raised E on line 2"),
        ("raise ValueError('x' * 10 ** 6)", "raised ValueError on line 2"),
    ],
)
def test_what_is_no_reward_is_an_error_that_names_the_completion(sandbox: Sandbox, body: str, words: str) -> None:
    component = python(f"if completion == '7': return 1\n    {body}", name="mine")
    error = error_of(sandbox, component)
    text = error.message.replace("line 3", "line 2")
    assert words in text
    assert "'mine'" in text and "completion 2 of 2" in text and "'What is 4 + 4?'" in text
    assert error.kind == "reward_error" and error.field == "reward.components.0" and error.advice
    assert len(error.message) < 1000


def test_too_slow_is_an_error_that_names_the_completion(sandbox: Sandbox) -> None:
    error = error_of(sandbox, python("\n    while completion == '8': pass\n    return 1", timeout_s=0.3))
    assert "longer than 0.3 s" in error.message and "completion 2 of 2" in error.message
    assert "timeout_s" in error.advice


def test_a_wrong_signature_says_what_is_given(sandbox: Sandbox) -> None:
    error = error_of(sandbox, {"kind": "python", "code": "def reward(question, completion): return 1"})
    assert "`question`" in error.message and "`prompt`" in error.message
    assert "no function" in error_of(sandbox, {"kind": "python", "code": "reward = 3"}).message


def test_an_error_at_import_names_the_line(sandbox: Sandbox) -> None:
    error = error_of(sandbox, {"kind": "python", "code": "import numpy\ndef reward(completion): return 1"})
    assert "ModuleNotFoundError on line 1" in error.message


@pytest.mark.parametrize("kind", ["exact", "numeric"])
def test_a_row_without_an_answer_is_an_error(sandbox: Sandbox, kind: str) -> None:
    error = error_of(sandbox, {"kind": kind}, sample("7"), sample("8", None))
    assert "no answer" in error.message and "completion 2 of 2" in error.message


def test_an_answer_without_a_number_is_an_error_of_numeric(sandbox: Sandbox) -> None:
    assert "'seven' holds no number" in error_of(sandbox, {"kind": "numeric"}, sample("7", "seven")).message


@pytest.mark.parametrize(
    "kind", [{"kind": "pattern", "pattern": "(a+)+$", "timeout_s": 0.3}, {"kind": "exact", "extract": "(a|a)+$"}]
)
def test_a_pattern_that_explodes_is_ended(
    sandbox: Sandbox, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainers.rewards.components.PATTERN_SECONDS", 0.3)
    started = time.monotonic()
    error = error_of(sandbox, kind, sample("b"), sample("a" * 60 + "b"))
    assert time.monotonic() - started < 10
    assert "completion 2 of 2" in error.message and "0.3 s" in error.message and "repetitions" in error.advice
    assert values(sandbox, {"kind": "pattern", "pattern": "a"}, sample("a")) == [1]


def test_a_sum_that_overflows_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(RewardError, match="too large"):
        Scorer(spec(python("return 1e308", weight=1000)), sandbox=sandbox).score([sample("7")])


def test_large_batches_come_back_whole(sandbox: Sandbox) -> None:
    rows = [sample("x" * 2000 + str(index)) for index in range(2000)]
    assert values(sandbox, python("return int(completion[2000:])"), *rows) == [float(i) for i in range(2000)]


def test_a_scorer_keeps_its_worker_and_ends_it() -> None:
    with Scorer(spec(python("return 1"))) as scorer:
        scorer.score([sample("7")])
        worker = scorer._workshop.sandbox("rewards")._worker
        scorer.score([sample("7")])
        assert worker is not None and scorer._workshop.sandbox("rewards")._worker is worker
    assert worker.process.poll() is not None


def test_which_rewards_need_answers() -> None:
    assert needs_answer(spec({"kind": "length", "maximum": 5}, {"kind": "exact"}))
    assert not needs_answer(spec(python("return 1"), {"kind": "pattern", "pattern": "a"}))


def test_answers_are_checked_before_a_run() -> None:
    reward = spec({"kind": "numeric", "name": "sum"})
    assert row_problem(reward, "#### 12", {}) is None
    assert (
        row_problem(reward, "twelve", {})
        == "The reward component 'sum' cannot be computed: the answer 'twelve' holds no number."
    )
    assert row_problem(reward, " ", {}) == "The reward component 'sum' cannot be computed: the row has no answer."


def test_trying_shows_parts_errors_and_prints_per_sample() -> None:
    reward = spec(
        {"kind": "numeric"}, python("print('seen', completion)\n    return 1 / (len(completion) - 2)", weight=2)
    )
    good, bad = try_reward(reward, [sample("7"), sample("42")])
    assert good["total"] == pytest.approx(1 - 2) and good["accurate"] is True and good["error"] is None
    assert good["printed"] == "seen 7\n"
    assert bad["total"] is None and bad["accurate"] is None and "ZeroDivisionError on line 3" in bad["error"]
    assert [part["value"] for part in bad["parts"]] == [0.0, None]
    json.dumps([good, bad])


def test_trying_takes_a_bounded_time() -> None:
    started = time.monotonic()
    tried = try_reward(spec(python("\n    while True: pass", timeout_s=300)), [sample("7")] * 5, seconds=1)
    assert time.monotonic() - started < 10
    assert all(result["total"] is None and result["error"] for result in tried)
    assert "time for all samples" in tried[-1]["error"]


def test_a_total_is_always_finite(sandbox: Sandbox) -> None:
    for score in Scorer(spec(python("return 0.1"), {"kind": "numeric", "weight": 3}), sandbox=sandbox).score(
        [sample("7")]
    ):
        assert math.isfinite(score.reward) and score.reward == pytest.approx(3.1)
