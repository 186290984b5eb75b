"""What the report says of a dataset as a whole: repeats, lengths, answers, scripts, pairs."""

from __future__ import annotations

import io
import itertools
import json
from typing import Any

import pytest

from trainers.data.figures import Measured, _bar, _low
from trainers.data.inspection import TokenCounter, inspect_dataset
from trainers.data.report import Report


def inspect(*rows: dict[str, Any], counter: TokenCounter | None = None) -> Report:
    content = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    report = inspect_dataset(io.BytesIO(content.encode()), "d.jsonl", counter=counter)
    assert Report.model_validate_json(report.model_dump_json()) == report
    return report


def warnings(report: Report) -> list[tuple[int | None, str]]:
    return [(problem.line, problem.kind) for problem in report.problems if problem.severity == "warning"]


def test_repeats_are_told_by_how_alike_they_are() -> None:
    report = inspect(
        {"question": "What is 3 - 4?", "answer": "-1"},
        {"question": "what  is 3 - 4", "answer": "-1"},
        {"question": "What is 3 - 4?", "answer": "-1"},
        {"question": "What is 3 + 4?", "answer": "7"},
        {"question": "What is 3.5?", "answer": "7"},
        {"question": "What is 35?", "answer": "7"},
        {"question": "What is 35!", "answer": "8"},
    )
    assert warnings(report) == [(2, "near_duplicate"), (3, "duplicate"), (7, "conflicting_answer")]


def test_pairs_repeat_only_with_both_sides() -> None:
    pair = {"prompt": "Hi", "chosen": "Hello.", "rejected": "What?"}
    report = inspect(pair, {**pair, "rejected": "Go."}, pair)
    assert warnings(report) == [(2, "conflicting_answer"), (3, "duplicate")]
    assert report.pairs == 3 and set(report.lengths) == {"prompt", "chosen", "rejected"}
    assert report.preview[0].chosen == [{"role": "assistant", "content": "Hello."}]
    assert any("recipe dpo" in note for note in report.notes)


def test_a_histogram_counts_every_length_once() -> None:
    measured = Measured()
    lengths = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 100, 100, 5000]
    for length in lengths:
        measured.add(length)
    bars = measured.summary().bars
    assert sum(bar.count for bar in bars) == len(lengths)
    assert [bar.low for bar in bars[:8]] == [0, 1, 2, 3, 4, 6, 8, 12] and bars[-1].low <= 5000 <= bars[-1].high
    assert all(before.high + 1 == after.low for before, after in itertools.pairwise(bars))
    assert all(_low(_bar(length)) <= length < _low(_bar(length) + 1) for length in range(5000))


def test_an_answer_that_is_given_most_of_the_time_is_a_warning() -> None:
    rows = [{"question": f"q{n}", "answer": "Yes" if n % 10 else "No"} for n in range(100)]
    report = inspect(*rows)
    assert (None, "label_imbalance") in warnings(report)
    assert "90% of the answers are 'yes'" in next(p.message for p in report.problems if p.kind == "label_imbalance")
    assert report.distinct_answers == 2 and [(a.answer, a.count) for a in report.answers] == [("yes", 90), ("no", 10)]


def test_what_is_wrong_with_the_whole_is_listed_before_a_long_list_of_rows() -> None:
    report = inspect(*[{"question": "the same", "answer": "yes"} for _ in range(300)])
    assert report.problems[0].kind == "label_imbalance" and report.counts["duplicate"] == 299


@pytest.mark.parametrize("count", [2, 3, 18, 97])
def test_evenly_spread_answers_are_no_warning(count: int) -> None:
    rows = [{"question": f"q{n}", "answer": f"text {n % count}"} for n in range(200)]
    assert warnings(inspect(*rows)) == []


def test_free_text_has_no_frequent_answers() -> None:
    report = inspect(*[{"question": f"q{n}", "answer": f"a long answer about {n} " * 9} for n in range(50)])
    assert report.answers == [] and report.distinct_answers is None and warnings(report) == []


def test_prompts_longer_than_a_job_takes_are_warnings() -> None:
    report = inspect({"question": "a " * 5000}, {"question": "b"})
    assert warnings(report) == [(1, "long_prompt")] and report.tokens is not None and report.tokens.model is None
    counter = TokenCounter("a model", lambda text: len(text.split()) // 3)
    assert warnings(inspect({"question": "a " * 5000}, {"question": "b"}, counter=counter)) == []
    report = inspect({"question": "a " * 9000}, {"question": "b"}, counter=counter)
    assert warnings(report) == [(1, "long_prompt")] and "3,000 tokens" in report.problems[0].message
    assert report.tokens is not None and report.tokens.model == "a model"


def test_after_enough_counting_long_prompts_are_guessed_by_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainers.data.inspection._CHARACTERS_COUNTED", 50_000)
    monkeypatch.setattr("trainers.data.inspection._TOKENS_COUNTED", 10)
    counted = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 2

    report = inspect(*[{"question": f"{n} " * 5000} for n in range(10, 40)], counter=TokenCounter("a model", count))
    assert report.counts["long_prompt"] == 30 and len(counted) == 4
    assert report.tokens is not None and report.tokens.per_token == 2


def test_several_scripts_are_noted() -> None:
    rows = [{"question": f"Question {n}"} for n in range(50)] + [{"question": f"第{n}个问题是什么"} for n in range(50)]
    assert any("several scripts: Latin 50%" in note for note in inspect(*rows).notes)
    assert not any("scripts" in note for note in inspect(*rows[:50]).notes)
