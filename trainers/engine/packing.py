"""Sequences that share beginnings, laid into one row in which every shared token stands once.

The sequences of a batch form a tree: a system prompt, under it the prompts, under each the completions. Laid out depth
first, a token sees exactly its ancestors: itself, and every earlier token whose subtree has not ended. Sorting the
sequences gives that order, and comparing neighbours gives the tree; equal sequences cost nothing. Tokens through the
network for G completions of a prompt: P + G·C at most, instead of G·(P + C).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]

_BLOCK = 256  # subtrees up to this size are one attention block; larger ones are split at their branches
_CHUNK = 1024  # a chain of tokens longer than this is split, so that no mask is larger than chunk x ancestors


@dataclass(frozen=True)
class Block:
    """Tokens ``start`` up to ``stop`` of the row attend to the tokens of the ``ancestors`` (block numbers) and, inside
    the block, to their ancestors; ``chain`` says that these are simply all earlier ones."""

    start: int
    stop: int
    ancestors: tuple[int, ...]
    chain: bool


@dataclass(frozen=True)
class Layout:
    """T tokens in one row. ``places[i][j]`` is where token j of sequence i stands.

    ``positions`` (T): distance from the root. ``ends`` (T): where the token's subtree ends in the row. ``fresh[i]``:
    how many tokens stand there for sequence i first, so their sum is T. ``owners``: (owner, start, stop) in the row.
    """

    tokens: Indices
    positions: Indices
    ends: Indices
    places: list[Indices]
    blocks: tuple[Block, ...]
    fresh: list[int]
    owners: list[tuple[int, int, int]]

    def __len__(self) -> int:
        return len(self.tokens)


def lay_out(sequences: Sequence[Sequence[int]], owners: Sequence[int] | None = None) -> Layout:
    """Merge the sequences (none of them empty) into one row. Those of different ``owners`` share nothing."""
    held = owners or [0] * len(sequences)
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    tokens: list[Indices] = []
    positions: list[Indices] = []
    places: list[Indices] = [np.empty(0, np.int64)] * len(arrays)
    ends = np.zeros(sum(len(array) for array in arrays), np.int64)
    parents: dict[int, int] = {}
    fresh, stretches = [0] * len(arrays), list[tuple[int, int, int]]()
    previous, place, offset = np.empty(0, np.int64), np.empty(0, np.int64), 0
    for index in sorted(range(len(arrays)), key=lambda i: (held[i], *sequences[i])):
        array = arrays[index]
        if stretches and stretches[-1][0] == held[index]:
            shared = common_prefix(previous, array)
            stretches[-1] = (held[index], stretches[-1][1], offset + len(array) - shared)
        else:
            shared = 0
            stretches.append((held[index], offset, offset + len(array)))
        ends[place[shared:]] = offset
        if shared < len(array):
            parents[offset] = int(place[shared - 1]) if shared else -1
        place = np.concatenate([place[:shared], np.arange(offset, offset + len(array) - shared)])
        tokens.append(array[shared:])
        positions.append(np.arange(shared, len(array)))
        places[index], previous = place, array
        fresh[index] = len(array) - shared
        offset += fresh[index]
    ends[place] = offset
    ends = ends[:offset]
    blocks = _blocks(ends, parents)
    return Layout(np.concatenate(tokens), np.concatenate(positions), ends, places, blocks, fresh, stretches)


def common_prefix(one: Indices, other: Indices) -> int:
    """How many tokens the two have in common at the beginning."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def split_by_tokens(
    sequences: Sequence[Sequence[int]], budget: int, owners: Sequence[int] | None = None
) -> list[list[int]]:
    """Divide the sequences into parts of at most ``budget`` tokens in the row each; a longer sequence stands alone.

    Neighbours in the tree stay together: a part that is full is cut where the fewest tokens are shared, as long as
    that keeps it at least half full. Returns indices, in the order of the row.
    """
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    held = owners or [0] * len(arrays)
    order = sorted(range(len(arrays)), key=lambda i: (held[i], *sequences[i]))
    shared = [0] + [common_prefix(arrays[a], arrays[b]) if held[a] == held[b] else 0 for a, b in pairwise(order)]
    parts: list[list[int]] = []
    start = 0
    while start < len(order):
        used, fills, stop = 0, [], start
        while stop < len(order):
            new = len(arrays[order[stop]]) - (shared[stop] if stop > start else 0)
            if stop > start and used + new > budget:
                break
            used += new
            fills.append(used)
            stop += 1
        if stop < len(order):
            cuts = [i for i in range(start + 1, stop + 1) if fills[i - 1 - start] * 2 >= used]
            stop = min(reversed(cuts), key=lambda i: shared[i])
        parts.append(order[start:stop])
        start = stop
    return parts


def _blocks(ends: Indices, parents: dict[int, int]) -> tuple[Block, ...]:
    """Cut the tree into attention blocks: whole small subtrees (neighbours together), and chains above large ones."""
    total = len(ends)
    # A chain goes on while a token's only child is the next token, with the same end.
    heads = np.ones(total, bool)
    heads[1:] = ends[1:] != ends[:-1]
    heads[list(parents)] = True
    starts = np.flatnonzero(heads)
    chain_stop = dict(zip(starts.tolist(), [*starts[1:].tolist(), total], strict=True))
    blocks: list[Block] = []
    # Work items: (first token, end of the range of siblings, ancestors of the range)
    stack: list[tuple[int, int, tuple[int, ...]]] = [(0, total, ())]
    while stack:
        start, stop, ancestors = stack.pop()
        at = start
        while at < stop and int(ends[at]) - start <= _BLOCK:
            at = int(ends[at])
        if at > start:  # one or more whole subtrees
            chain = chain_stop[start] == at
            blocks.append(Block(start, at, ancestors, chain))
            if at < stop:
                stack.append((at, stop, ancestors))
            continue
        end, below = int(ends[at]), ancestors
        if end < stop:
            stack.append((end, stop, ancestors))
        for first in range(at, chain_stop[at], _CHUNK):
            blocks.append(Block(first, min(first + _CHUNK, chain_stop[at]), below, True))
            below = (*below, len(blocks) - 1)
        if chain_stop[at] < end:
            stack.append((chain_stop[at], end, below))
    return tuple(blocks)
