from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.engine import packing
from trainers.engine.packing import lay_out, split_by_tokens

# Few different tokens, so that beginnings are often shared.
sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=25)


def seen_by(layout: packing.Layout) -> np.ndarray:
    """(T, T) matrix of what the blocks let every token see."""
    total = len(layout)
    visible = np.zeros((total, total), bool)
    for block in layout.blocks:
        for ancestor in block.ancestors:
            other = layout.blocks[ancestor]
            visible[block.start : block.stop, other.start : other.stop] = True
        own = np.arange(block.start, block.stop)
        tree = (own[None, :] <= own[:, None]) & (own[:, None] < layout.ends[block.start : block.stop][None, :])
        if block.chain:
            assert (tree == np.tril(np.ones_like(tree))).all()
        visible[block.start : block.stop, block.start : block.stop] = tree
    return visible


@given(sequences, st.integers(1, 40), st.integers(1, 10))
@settings(max_examples=200, deadline=None)
def test_every_token_sees_exactly_its_own_beginning(given_sequences, block_size, chunk):
    before = packing._BLOCK, packing._CHUNK
    packing._BLOCK, packing._CHUNK = block_size, chunk
    try:
        layout = lay_out(given_sequences)
        visible = seen_by(layout)
    finally:
        packing._BLOCK, packing._CHUNK = before
    for sequence, place in zip(given_sequences, layout.places, strict=True):
        assert layout.tokens[place].tolist() == sequence
        assert layout.positions[place].tolist() == list(range(len(sequence)))
        for index, token in enumerate(place):
            assert np.flatnonzero(visible[token]).tolist() == place[: index + 1].tolist()


@given(sequences)
@settings(max_examples=100, deadline=None)
def test_no_beginning_stands_twice(given_sequences):
    layout = lay_out(given_sequences)
    beginnings = {tuple(sequence[: end + 1]) for sequence in given_sequences for end in range(len(sequence))}
    assert len(layout) == len(beginnings)


def test_a_group_of_completions_costs_its_prompt_once():
    prompt = list(range(100, 150))
    layout = lay_out([[*prompt, i, 7, 8] for i in range(8)])
    assert len(layout) == 50 + 8 * 3


@given(sequences, st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_parts_keep_to_the_budget_and_lose_nothing(given_sequences, budget):
    parts = split_by_tokens(given_sequences, budget)
    assert sorted(index for part in parts for index in part) == list(range(len(given_sequences)))
    for part in parts:
        assert len(part) == 1 or len(lay_out([given_sequences[i] for i in part])) <= budget


def test_a_full_part_is_cut_between_prompts_rather_than_inside_a_group():
    groups = [[[*range(prompt, prompt + 20), 900 + i] for i in range(4)] for prompt in (0, 100, 200)]
    flat = [sequence for group in groups for sequence in group]
    parts = split_by_tokens(flat, 60)
    assert [len(part) for part in parts] == [8, 4]
