"""Values of a completion's form alone: its length, its repetitions, its tags. Linear in its length."""

from __future__ import annotations

from collections.abc import Sequence

from trainers.recipes.context import ScoredInput
from trainers.rewards.bench import Bench
from trainers.rewards.spec import Length, LengthTarget, Overlong, Repetition, Tags
from trainers.rewards.unscored import Unscored

CHARACTERS_PER_TOKEN = 4
_ESTIMATED = f"Tokens are estimated here, as {CHARACTERS_PER_TOKEN} characters each; a run counts them."


def length(component: Length, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    low, high = component.minimum, component.maximum
    return [_within(_size(row, component.unit, index, bench), low, high) for index, row in enumerate(rows)]


def _within(size: int, minimum: int, maximum: int) -> float:
    if size < minimum:
        return size / minimum
    return max(0.0, 1.0 - max(0, size - maximum) / maximum)


def length_target(component: LengthTarget, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    sizes = [_size(row, component.unit, index, bench) for index, row in enumerate(rows)]
    return [max(0.0, 1.0 - abs(size - component.target) / component.width) for size in sizes]


def overlong(component: Overlong, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    sizes = [_size(row, component.unit, index, bench) for index, row in enumerate(rows)]
    return [min(1.0, max(0.0, (component.limit - size) / component.buffer)) for size in sizes]


def _size(row: ScoredInput, unit: str, index: int, bench: Bench) -> int:
    if unit == "characters":
        return len(row.completion)
    if row.tokens is not None:
        return row.tokens
    if not bench.trying:
        raise Unscored(index, "counts tokens, and this completion was not sampled by a model", "Count characters.")
    if _ESTIMATED not in bench.notes:
        bench.notes.append(_ESTIMATED)
    return -(-len(row.completion) // CHARACTERS_PER_TOKEN)


def repetition(component: Repetition, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    """Share of different runs, as in the repetition penalty of Yeo et al. 2025 (arXiv:2502.03373), counted from 1."""
    values = []
    for row in rows:
        units: Sequence[str] = row.completion.split() if component.unit == "words" else row.completion
        runs = [tuple(units[at : at + component.size]) for at in range(len(units) - component.size + 1)]
        values.append(len(set(runs)) / len(runs) if runs else 1.0)
    return values


def tags(component: Tags, rows: Sequence[ScoredInput], bench: Bench) -> list[float]:
    return [_tags_of(component, row.completion) for row in rows]


def _tags_of(component: Tags, text: str) -> float:
    held = []
    reached = 0  # where the tags found so far end
    outside = ""
    for tag in component.tags:
        opening, closing = f"<{tag}>", f"</{tag}>"
        start = text.find(opening, reached)
        end = text.find(closing, start + len(opening)) if start >= 0 else -1
        once = text.count(opening) == 1 and text.count(closing) == 1
        if start >= 0 and end >= 0:
            outside += text[reached:start]
            held.append(once and bool(text[start + len(opening) : end].strip()))
            reached = end + len(closing)
        else:
            held.append(False)
    if not component.outside:
        held.append(not (outside + text[reached:]).strip())
    return sum(held) / len(held) if component.partial else float(all(held))
