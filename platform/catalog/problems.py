"""The problems a check found, as a page lists them: equal ones that follow each other are one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True)
class ProblemGroup:
    """``count`` equal problems, in the lines ``first`` to ``last`` (None: not about a line)."""

    first: int | None
    last: int | None
    count: int
    severity: str
    column: str | None
    message: str
    advice: str


def grouped(problems: list[dict[str, Any]]) -> list[ProblemGroup]:
    found = []
    for _key, group in groupby(problems, key=lambda p: (p["severity"], p["column"], p["message"], p["advice"])):
        same = list(group)
        lines = [problem["line"] for problem in same if problem["line"] is not None]
        found.append(
            ProblemGroup(
                first=lines[0] if lines else None,
                last=lines[-1] if lines else None,
                count=len(same),
                severity=same[0]["severity"],
                column=same[0]["column"],
                message=same[0]["message"],
                advice=same[0]["advice"],
            )
        )
    return found
