"""Two texts word by word: what both have, what only the first and what only the second has."""

from __future__ import annotations

import re

from rapidfuzz.distance import Indel

# Words of each text that are compared.
MOST_WORDS = 4000
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")

Piece = tuple[str, str]


def word_diff(before: str, after: str) -> tuple[list[Piece], bool]:
    """``[("same" | "gone" | "new", text), ...]`` and whether the texts were cut to be compared."""
    left, right = (_WORDS.findall(text[: MOST_WORDS * 20]) for text in (before, after))
    cut = len(left) > MOST_WORDS or len(right) > MOST_WORDS or max(len(before), len(after)) > MOST_WORDS * 20
    left, right = left[:MOST_WORDS], right[:MOST_WORDS]
    pieces: list[Piece] = []
    gone = new = ""
    for step in Indel.opcodes(left, right):
        if step.tag == "equal":
            pieces += _changed(gone, new)
            gone = new = ""
            pieces.append(("same", "".join(left[step.src_start : step.src_end])))
        else:
            gone += "".join(left[step.src_start : step.src_end])
            new += "".join(right[step.dest_start : step.dest_end])
    pieces += _changed(gone, new)
    return pieces, cut


def _changed(gone: str, new: str) -> list[Piece]:
    """What went stands before what came in its place."""
    return [(kind, text) for kind, text in (("gone", gone), ("new", new)) if text]
