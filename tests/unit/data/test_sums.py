from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.data.loading import load_rows
from trainers.data.sums import make_sums, to_jsonl
from trainers.spec import Data


def pairs(rows: Iterable[dict[str, Any]]) -> set[frozenset[int]]:
    return {frozenset((row["a"], row["b"])) for row in rows}


@given(st.integers(0, 5), st.integers(0, 8), st.integers(0, 10), st.integers(0, 100))
def test_no_pair_is_on_both_sides_in_either_order(smallest: int, width: int, held_out: int, seed: int) -> None:
    total = (width + 1) * (width + 2) // 2
    held_out = min(held_out, total - 1)
    sums = make_sums(smallest=smallest, largest=smallest + width, held_out_pairs=held_out, seed=seed)
    assert pairs(sums.train).isdisjoint(pairs(sums.held_out))
    assert len(pairs(sums.held_out)) == held_out and len(pairs(sums.train)) == total - held_out
    rows = sums.train + sums.held_out
    assert len(rows) == (width + 1) ** 2 == len({row["question"] for row in rows})
    assert all(row["answer"] == str(row["a"] + row["b"]) for row in rows)


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two, other = (to_jsonl(make_sums(seed=seed).train) for seed in (1, 1, 2))
    assert one == two != other


def test_rows_are_loaded_without_naming_a_column() -> None:
    sums = make_sums(template="{a}加{b}等于多少？", train_rows=20)
    loaded = load_rows(io.BytesIO(to_jsonl(sums.train)), "sums.jsonl", Data(source="x"), need_answer=True)
    assert len(loaded.rows) == 20 and loaded.bad_count == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"smallest": 5, "largest": 4}, "larger than largest"),
        ({"template": "What is {a}?"}, "must hold"),
        ({"held_out_pairs": 45}, "from 0 to 44"),
        ({"held_out_pairs": -1}, "from 0 to 44"),
        ({"train_rows": 0}, "train_rows"),
        ({"train_rows": 1000}, "train_rows"),
    ],
)
def test_what_cannot_be_made_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_sums(**wrong)
