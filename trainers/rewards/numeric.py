"""Reads numbers out of text, as people and models write them. Linear in the length of the text.

What counts as a number (docs/rewards.md says the same to users):

- digits with an optional decimal point, ``.5`` too; thousands separated by ``,`` in groups of three; ``1e-3``;
- full-width digits, points, signs and percent signs (``４２``) and the Unicode minus (``−``) like their ASCII twins;
- ``-`` is a sign only where no digit, letter or closing bracket stands before it: ``5-3`` holds 5 and 3;
- ``3/4`` and ``\\frac{3}{4}`` are one number each, but a date such as ``1/2/2024`` is three;
- ``50%`` is 50, and as right as 0.5; number words (``forty-two``, ``四十二``) are no numbers.

Where a text marks its answer, by ``####`` or ``\\boxed{...}``, only what it marks is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Context, Decimal, DivisionByZero, InvalidOperation
from typing import NamedTuple

_FOLDED = str.maketrans("０１２３４５６７８９．＋－＝％／﹣−", "0123456789.+-=%/--")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = re.compile(
    r"""
    \\[dt]?frac\{\s*(?P<top>[+-]?\d{1,40})\s*\}\{\s*(?P<bottom>[+-]?\d{1,40})\s*\}
    |
    (?P<sign>(?<![\w)\]}])[+-])?
    (?:
        (?<![\d./])(?P<fraction>\d{1,40}/\d{1,40})(?![\d/])
        |
        (?P<plain>(?<!\d)(?<!\d\.)"""
    + _DIGITS
    + r"""(?:\.\d+)?|(?<![\d.])\.\d+)
        (?P<exponent>[eE][+-]?\d{1,4}(?![\w.]))?
        (?P<percent>\s?%)?
    )
    """,
    re.VERBOSE,
)
_LONGEST = 400
_EXACT = Context(prec=_LONGEST + 20, traps=[InvalidOperation, DivisionByZero])


class Number(NamedTuple):
    value: Decimal
    percent: bool


def numbers(text: str) -> Iterator[Number]:
    """The numbers of a text in order."""
    folded = text.translate(_FOLDED)
    for match in _NUMBER.finditer(folded):
        number = _read(match)
        if number is not None:
            yield number


def _read(match: re.Match[str]) -> Number | None:
    if match.end() - match.start() > _LONGEST:  # no number that a person wrote
        return None
    if match["top"] is not None or match["fraction"] is not None:
        top, bottom = (match["top"], match["bottom"]) if match["top"] is not None else match["fraction"].split("/")
        if int(bottom) == 0:
            return None
        value = _EXACT.divide(Decimal(top), Decimal(bottom))
    else:
        value = Decimal(match["plain"].replace(",", "") + (match["exponent"] or ""))
    return Number(value.copy_negate() if match["sign"] == "-" else value, match["percent"] is not None)


def marked_answer(text: str) -> str | None:
    """What follows the last ``####``, or else stands in the last ``\\boxed{...}``; None if a text marks nothing."""
    _, mark, rest = text.rpartition("####")
    if mark:
        return rest.strip()
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin + 1 : index].strip()
    return None


def number_of(text: str, which: str = "last") -> Number | None:
    """The ``first`` or ``last`` number of a text, or of the answer that it marks; None if there is none."""
    marked = marked_answer(text)
    found = None
    for number in numbers(text if marked is None else marked):
        found = number
        if which == "first":
            break
    return found


def close(one: Number, other: Number, tolerance: float) -> bool:
    """Whether two numbers differ by at most ``tolerance``, as written or with their percent signs applied."""
    if _near(one.value, other.value, tolerance):
        return True
    return one.percent != other.percent and _near(_applied(one), _applied(other), tolerance)


def _applied(number: Number) -> Decimal:
    return _EXACT.scaleb(number.value, -2) if number.percent else number.value


def _near(one: Decimal, other: Decimal, tolerance: float) -> bool:
    return abs(_EXACT.subtract(one, other)) <= Decimal(repr(tolerance))
