"""Figures of a dataset that are gathered while it streams by, in memory of a fixed size."""

from __future__ import annotations

import random
import re
from collections import Counter

from trainers.data.chats import folded
from trainers.data.report import AnswerShare, Bar, Lengths
from trainers.rewards.numeric import marked_answer

_SAMPLED = 10_000
_ANSWERS_KEPT = 2_000
_ANSWERS_SHOWN = 8
_LONGEST_ANSWER = 80
_SCRIPT_ROWS = 5_000
_SCRIPT_CHARACTERS = 200
_SCRIPTS = {
    "Latin": re.compile("[A-Za-z\u00c0-\u024f]"),
    "Chinese or Japanese": re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"),
    "Korean": re.compile("[\uac00-\ud7af]"),
    "Cyrillic": re.compile("[\u0400-\u04ff]"),
    "Greek": re.compile("[\u0370-\u03ff]"),
    "Hebrew": re.compile("[\u0590-\u05ff]"),
    "Arabic": re.compile("[\u0600-\u06ff]"),
    "Devanagari": re.compile("[\u0900-\u097f]"),
    "Thai": re.compile("[\u0e00-\u0e7f]"),
}


class Measured:
    """Lengths as they come by: bounds, mean and histogram exact, percentiles by a reservoir (Vitter's algorithm R)."""

    def __init__(self) -> None:
        self.count = self._sum = self._largest = 0
        self._smallest = -1
        self._sample: list[int] = []
        self._random = random.Random(0)
        self._bars: Counter[int] = Counter()

    def add(self, length: int) -> None:
        self.count += 1
        self._sum += length
        self._largest = max(self._largest, length)
        self._smallest = length if self._smallest < 0 else min(self._smallest, length)
        self._bars[_bar(length)] += 1
        if len(self._sample) < _SAMPLED:
            self._sample.append(length)
        elif (place := self._random.randrange(self.count)) < _SAMPLED:
            self._sample[place] = length

    def summary(self) -> Lengths:
        ordered = sorted(self._sample)
        first, last = min(self._bars), max(self._bars)
        return Lengths(
            smallest=self._smallest,
            mean=round(self._sum / self.count, 1),
            median=ordered[len(ordered) // 2],
            p95=ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
            largest=self._largest,
            bars=[
                Bar(low=_low(index), high=_low(index + 1) - 1, count=self._bars[index])
                for index in range(first, last + 1)
            ],
        )


def _bar(length: int) -> int:
    """The number of the bar: each power of two is split into two halves, so bars widen as lengths grow."""
    if length < 2:
        return length
    power = length.bit_length() - 1
    return 2 * power + (length >= 3 << (power - 1))


def _low(index: int) -> int:
    """The smallest length of a bar."""
    if index < 2:
        return index
    power, half = divmod(index, 2)
    return (2 + half) << (power - 1)


class Answers:
    """How often each short answer comes. Worked answers count by the result that they mark."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._complete = True

    def add(self, answer: str) -> None:
        self._total += 1
        text = marked_answer(answer) or answer
        if len(text) > _LONGEST_ANSWER:
            self._complete = False
            return
        key = folded(text)
        if key in self._counts or len(self._counts) < _ANSWERS_KEPT:
            self._counts[key] += 1
        else:
            self._complete = False

    @property
    def distinct(self) -> int | None:
        """How many different answers there are; None where they were too many or too long to count."""
        return len(self._counts) if self._complete else None

    def shares(self) -> list[AnswerShare]:
        """The most frequent answers; empty where hardly any comes twice, as in free text."""
        common = self._counts.most_common(_ANSWERS_SHOWN)
        if not common or common[0][1] < 2:
            return []
        return [AnswerShare(answer=answer, count=count) for answer, count in common if count > 1]

    def imbalance(self) -> str | None:
        """A warning where one answer is given so often that always giving it looks like success."""
        if self._total < 20 or not self._counts:
            return None
        answer, count = self._counts.most_common(1)[0]
        share = count / self._total
        few = self._complete and len(self._counts) <= 20
        limit = min(0.95, max(0.5, 1.5 / len(self._counts))) if few else 0.3
        if share < limit:
            return None
        if len(self._counts) == 1 and self._complete:
            return f"All answers are {answer!r}: there is nothing to tell apart."
        return f"{share:.0%} of the answers are {answer!r}: a model that always says so is right as often."


class Scripts:
    """Which scripts the prompts are written in, by the first characters of the first rows."""

    def __init__(self) -> None:
        self._rows = 0
        self._counts: Counter[str] = Counter()

    def add(self, text: str) -> None:
        if self._rows >= _SCRIPT_ROWS:
            return
        self._rows += 1
        start = text[:_SCRIPT_CHARACTERS]
        if start.isascii():
            self._counts["Latin"] += 1
            return
        found = {name: len(pattern.findall(start)) for name, pattern in _SCRIPTS.items()}
        if any(found.values()):
            self._counts[max(found, key=lambda name: found[name])] += 1

    def note(self) -> str | None:
        """A sentence where more than one script is used in at least 5 % of the rows."""
        used = [(name, count) for name, count in self._counts.most_common() if count >= max(5, 0.05 * self._rows)]
        if len(used) < 2:
            return None
        told = ", ".join(f"{name} {count / self._rows:.0%}" for name, count in used)
        return f"Prompts are written in several scripts: {told}. Check that this is meant."
