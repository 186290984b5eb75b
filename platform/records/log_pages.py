"""Reading a log of any length: windows by key, never by offset; search within a time limit; a line by its time.

Every window walks the index ``one_line_per_event`` (subject, attempt, seq) from a key and stops when it is full, so a
million lines cost what a thousand do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left, Length
from django.db.utils import DataError

from records.models import LogLine
from records.selectors import Subject
from records.time_limit import TooSlow, time_limit

Key = tuple[int, int]
LEVELS = ("debug", "info", "warning", "error")
WINDOW = 300
HITS = 200
# Characters of a line that come with a window; a download has all.
CUT = 8000
SECONDS = 3


class SearchProblem(Exception):
    """A search that cannot be done; the text says why and what to do."""


@dataclass(frozen=True)
class Lines:
    """Which lines: from a level on, of one attempt. ``text`` is looked for, as a regular expression if ``regex``."""

    level: str = ""
    attempt: int | None = None
    text: str = ""
    regex: bool = False

    def of(self, subject: Subject) -> QuerySet[LogLine]:
        rows = _all_lines(subject)
        if self.level in LEVELS[1:]:
            rows = rows.filter(level__in=LEVELS[LEVELS.index(self.level) :])
        if self.attempt is not None:
            rows = rows.filter(attempt=self.attempt)
        if self.text:
            rows = rows.filter(text__iregex=self.text) if self.regex else rows.filter(text__icontains=self.text)
        return rows


def window_before(subject: Subject, lines: Lines, key: Key | None, count: int = WINDOW) -> list[list[Any]]:
    """The ``count`` lines before ``key`` (None: the newest), oldest first.

    Each is ``[attempt, seq, t (unix s), level, text, length of the whole text]``.
    """
    return _newest(subject, lines, key, count)[::-1]


def window_after(subject: Subject, lines: Lines, key: Key, count: int = WINDOW) -> list[list[Any]]:
    """The ``count`` lines after ``key``."""
    rows = lines.of(subject)
    rows = rows.filter(Q(attempt__gt=key[0]) | Q(attempt=key[0], seq__gt=key[1]), attempt__gte=key[0])
    return _shown(rows.order_by("attempt", "seq"), count)


def window_around(subject: Subject, lines: Lines, key: Key, count: int = WINDOW) -> list[list[Any]]:
    """The line at ``key`` in the middle of its context."""
    before = window_before(subject, lines, (key[0], key[1] + 1), count // 2 + 1)
    return before + window_after(subject, lines, key, count - len(before))


def search(subject: Subject, lines: Lines, before: Key | None = None) -> list[list[Any]]:
    """The newest hits, newest first, at most ``HITS``; with ``before`` those older than it.

    Raises :class:`SearchProblem` for an expression that is none, and for a search that takes too long.
    """
    with bounded():
        return _newest(subject, lines, before, HITS)


def key_at(subject: Subject, moment: datetime) -> Key | None:
    """The first line at or after a moment, or the last line of all.

    Found by halving each attempt's numbers, as lines come in the order of time: some twenty looks at the index.
    """
    rows = _all_lines(subject)
    last: Key | None = None
    for attempt in attempts_of(subject):
        mine = rows.filter(attempt=attempt)
        end = mine.order_by("-seq").values_list("seq", "at")[:1].get()
        last = (attempt, end[0])
        if end[1] < moment:
            continue
        low, high = 0, end[0]
        while low < high:
            middle = (low + high) // 2
            seq, at = mine.filter(seq__gt=middle).order_by("seq").values_list("seq", "at")[:1].get()
            if at < moment:
                low = seq
            else:
                high = middle
        found = mine.filter(seq__gt=low).order_by("seq").values_list("seq", flat=True)[:1].get()
        return attempt, found
    return last


def attempts_of(subject: Subject) -> list[int]:
    """The attempts that wrote lines; one look at the index for each."""
    rows = _all_lines(subject).order_by("attempt")
    found: list[int] = []
    number = rows.values_list("attempt", flat=True).first()
    while number is not None:
        found.append(number)
        number = rows.filter(attempt__gt=number).values_list("attempt", flat=True).first()
    return found


def _all_lines(subject: Subject) -> QuerySet[LogLine]:
    return LogLine.objects.filter(subject_kind=subject[0], subject_id=subject[1])


def _newest(subject: Subject, lines: Lines, before: Key | None, count: int) -> list[list[Any]]:
    """The newest lines before a key (None: of all), newest first."""
    rows = lines.of(subject)
    if before is not None:
        rows = rows.filter(Q(attempt__lt=before[0]) | Q(attempt=before[0], seq__lt=before[1]), attempt__lte=before[0])
    return _shown(rows.order_by("-attempt", "-seq"), count)


def _shown(rows: QuerySet[LogLine], count: int) -> list[list[Any]]:
    values = rows.values_list("attempt", "seq", "at", "level", Left("text", CUT), Length("text"))
    return [
        [attempt, seq, at.timestamp(), level, text, length] for attempt, seq, at, level, text, length in values[:count]
    ]


@contextmanager
def bounded() -> Iterator[None]:
    """Inside, a query may take only so long, and its expression may be wrong."""
    try:
        with time_limit(SECONDS):
            yield
    except DataError:
        raise SearchProblem("This is not a regular expression that the database knows.") from None
    except TooSlow:
        raise SearchProblem(
            f"The search took longer than {SECONDS} seconds. Choose a level or an attempt, or look for plain text."
        ) from None
