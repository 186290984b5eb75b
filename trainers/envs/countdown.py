"""Countdown: reach a number by + - * / from given numbers, each used at most once. A wrong try is told its value."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from trainers.envs.protocol import Environment, Turn, whole_number

TRIES = 3
WELL_FORMED = 0.1
MOST_NUMBERS = 8
_LONGEST = 200
_ALLOWED = re.compile(r"[0-9+\-*/() ]*")
_LARGEST = 10**6


class Countdown:
    """Reward 1 for the target; 0.1 if the last try was at least an expression of the given numbers.

    The first line that looks like arithmetic counts; what stands after an equals sign is left out.
    """

    def reset(self, task: Mapping[str, Any]) -> str:
        numbers = task.get("numbers")
        if isinstance(numbers, str):
            numbers = [int(part) for part in re.findall(r"\d{1,7}", numbers)]
        if not isinstance(numbers, Sequence) or not 2 <= len(numbers) <= MOST_NUMBERS:
            raise ValueError(f"The column 'numbers' must hold a list of 2 to {MOST_NUMBERS} whole numbers.")
        self._numbers = [whole_number({"numbers": number}, "numbers", 0, _LARGEST) for number in numbers]
        self._target = whole_number(task, "target", -_LARGEST, _LARGEST)
        self._tries = 0
        listed = ", ".join(str(number) for number in self._numbers)
        return (
            f"Use the numbers {listed}, each at most once, with + - * / and brackets, to make {self._target}. "
            "Answer with the expression only."
        )

    def step(self, text: str) -> Turn:
        self._tries += 1
        last = self._tries == TRIES
        value = evaluate(expression_in(text), self._numbers)
        if isinstance(value, str):
            return Turn(None if last else f"{value} Try again.", parts={"well_formed": 0.0})
        if value == self._target:
            return Turn(None, 1.0, True, {"well_formed": 1.0})
        if last:
            return Turn(None, WELL_FORMED, parts={"well_formed": 1.0})
        return Turn(f"That makes {value}, not {self._target}. Try again.", parts={"well_formed": 1.0})


def expression_in(text: str) -> str:
    """The first line with arithmetic in it, up to an equals sign."""
    for line in text.splitlines():
        candidate = line.partition("=")[0].strip().strip("`").replace("×", "*").replace("÷", "/").replace("−", "-")
        if re.search(r"\d", candidate):
            return candidate
    return ""


def evaluate(expression: str, numbers: Sequence[int]) -> Fraction | str:
    """The exact value of an expression that uses only the numbers, each at most once; else a sentence why not."""
    if not expression or len(expression) > _LONGEST or not _ALLOWED.fullmatch(expression):
        return "Write one expression of the given numbers, with + - * / and brackets."
    try:
        tree = ast.parse(expression, mode="eval").body
        used = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        surplus = Counter(used) - Counter(numbers)
        if surplus:
            return f"{next(iter(surplus))!r} is used more often than it is given."
        return _value(tree)
    except ZeroDivisionError:
        return "That divides by zero."
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "That is not a well-formed expression."


def _value(tree: ast.expr) -> Fraction:
    match tree:
        case ast.Constant(value=int() as number):
            return Fraction(number)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left) + _value(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left) - _value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left) * _value(right)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left) / _value(right)
    raise ValueError("only + - * / of numbers")


class CountdownKind:
    name = "countdown"
    title = "Countdown: reach a number by arithmetic"

    def make(self) -> Environment:
        return Countdown()

    def tasks(self, count: int, seed: int) -> Sequence[Mapping[str, Any]]:
        draw = random.Random(seed)
        found: dict[tuple[int, ...], Mapping[str, Any]] = {}
        for _ in range(20 * count):
            if len(found) == count:
                break
            numbers = [draw.randint(1, 20) for _ in range(3)]
            target, solution = _solved(numbers, draw)
            key = (*sorted(numbers), target)
            if 1 <= target <= 100 and target not in numbers and key not in found:
                task = {"numbers": numbers, "target": target}
                found[key] = {"prompt": Countdown().reset(task), "answer": solution, **task}
        return list(found.values())


def _solved(numbers: Sequence[int], draw: random.Random) -> tuple[int, str]:
    """A target that can be reached from all of the numbers, and how."""
    value, text = numbers[0], str(numbers[0])
    for number in numbers[1:]:
        operator = draw.choice("+-*") if number < 10 else draw.choice("+-")
        value = {"+": value + number, "-": value - number, "*": value * number}[operator]
        text = f"({text}) {operator} {number}" if len(text) > 3 else f"{text} {operator} {number}"
    return value, text
