"""What a model wrote is shown whole and harmless, and compared word by word."""

from __future__ import annotations

import time

import pytest

from jobs.templatetags.rollout_ui import bar, shown
from jobs.word_diff import word_diff


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("safe\u202etxt.exe", "safe[U+202E]txt.exe"),
        ("a\u200bb\ufeff", "a[U+200B]b[U+FEFF]"),
        ("bell\x07 del\x7f c1\x9b", "bell␇ del␡ c1[U+009B]"),
        ("עברית 中文 🧮", "עברית 中文 🧮"),
        ("half\rline", "half␍line"),
    ],
)
def test_nothing_hides(text, seen):
    assert shown(text) == seen


def test_a_difference_is_told_word_by_word():
    pieces, cut = word_diff("The sum is 11.", "The sum is 12, surely.")
    assert ("gone", "11") in pieces and ("same", "The sum is ") in pieces
    assert "".join(text for kind, text in pieces if kind == "new") == "12, surely"
    assert not cut
    assert "".join(text for kind, text in pieces if kind != "new") == "The sum is 11."
    assert "".join(text for kind, text in pieces if kind != "gone") == "The sum is 12, surely."


def test_huge_texts_are_compared_in_a_bounded_time():
    began = time.monotonic()
    _pieces, cut = word_diff("a b " * 500_000, "c d " * 500_000)
    assert cut
    assert time.monotonic() - began < 10
    assert len(word_diff("x" * 1_000_000, "y")[0]) == 2


def test_bars_are_drawn_beside_the_largest():
    assert bar(-0.5, 1.0) == 24.0
    assert bar(float("nan"), 1.0) == bar("NaN", 1.0) == bar(True, 1.0) == bar(1.0, 0.0) == 0.0
