"""The problems a check found, as a page lists them: equal ones that follow each other are one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

LINES_SHOWN = 5


@dataclass(frozen=True)
class ProblemGroup:
    """``count`` equal problems; ``where`` are their lines as a person reads them, empty when it is not about lines."""

    where: str
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
                where=_where(lines),
                count=len(same),
                severity=same[0]["severity"],
                column=same[0]["column"],
                message=same[0]["message"],
                advice=same[0]["advice"],
            )
        )
    return found


def _where(lines: list[int]) -> str:
    if len(lines) > 2 and lines[-1] - lines[0] == len(lines) - 1:
        return f"{lines[0]:,}–{lines[-1]:,}"
    shown = ", ".join(f"{line:,}" for line in lines[:LINES_SHOWN])
    return f"{shown} …" if len(lines) > LINES_SHOWN else shown
