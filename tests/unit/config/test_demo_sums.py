from __future__ import annotations

import json

from config.demo_watch import duration, percent
from jobs import demo


def pair(row: dict[str, str]) -> frozenset[str]:
    question = row["prompt"].removeprefix("What is ").partition("?")[0]
    return frozenset(question.split(" + "))


def test_no_pair_of_numbers_is_both_learned_and_held_out():
    learn, held_out = demo.sums(demo.LARGEST_OPERAND, demo.HELD_OUT_SHARE)
    assert {pair(row) for row in learn}.isdisjoint({pair(row) for row in held_out})
    assert len(learn) + len(held_out) == (demo.LARGEST_OPERAND + 1) ** 2
    assert json.dumps(learn) == json.dumps(demo.sums(demo.LARGEST_OPERAND, demo.HELD_OUT_SHARE)[0])


def test_each_sum_is_right():
    for row in demo.sums(demo.LARGEST_OPERAND, demo.HELD_OUT_SHARE)[0]:
        first, second = row["prompt"].removeprefix("What is ").partition("?")[0].split(" + ")
        assert int(first) + int(second) == int(row["answer"])


def test_figures_are_shown_as_people_write_them():
    assert percent({"accuracy": 0.8125}, "accuracy") == "81.2%"
    assert percent({}, "accuracy") == "–"
    assert duration(61.6) == "1 min 02 s"
    assert duration(59.4) == "59 s"
