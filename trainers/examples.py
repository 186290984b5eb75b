"""Small datasets that the platform brings along, so that a person without data can see each kind of training work.

Every row is made by rule from short lists of words and numbers; the same name gives the same rows.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
ROWS = 240

_NAMES = ("Ana", "Bo", "Chen", "Dara", "Eli", "Fay", "Goran", "Hana")
_THINGS = ("apples", "books", "coins", "pens", "shells", "stamps")
_CITIES = {"France": "Paris", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima", "Kenya": "Nairobi", "Italy": "Rome"}
_COLORS = {"snow": "white", "grass": "green", "coal": "black", "the sky": "blue", "a ripe tomato": "red"}
_PROBLEMS = (
    ("My order number {n} has not arrived.", "I am sorry to hear that. I will check order {n} and tell you today."),
    ("I was charged twice for order {n}.", "I am sorry about that. I will refund the second charge of order {n}."),
    ("How do I change the address of order {n}?", "You can change it under Orders; open order {n} and choose Edit."),
    ("Can I return order {n}?", "Yes, within 30 days. Open order {n} and choose Return."),
    ("Please cancel order {n}.", "Of course. Order {n} is cancelled, and the money comes back to you."),
)


@dataclass(frozen=True)
class Example:
    """A dataset by ``key``; ``license`` is that of the project, whose own work it is."""

    key: str
    title: str
    rows: Callable[[random.Random], Iterator[Row]]

    def file(self) -> bytes:
        """The rows as JSON Lines in UTF-8."""
        found = itertools.islice(self.rows(random.Random(self.key)), ROWS)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found).encode()

    @property
    def first_row(self) -> str:
        """One row as a person would write it."""
        return json.dumps(next(self.rows(random.Random(self.key))), ensure_ascii=False)


def _arithmetic(source: random.Random) -> Iterator[Row]:
    for left, right in _shuffled(source, itertools.product(range(2, 18), range(2, 17))):
        name, thing = source.choice(_NAMES), source.choice(_THINGS)
        if left > right and source.random() < 0.5:
            text, answer = f"{name} has {left} {thing} and gives {right} away. How many are left?", left - right
        else:
            text, answer = f"{name} has {left} {thing} and finds {right} more. How many are there now?", left + right
        yield {"prompt": f"{text} Answer with a number.", "answer": str(answer)}


def _support(source: random.Random) -> Iterator[Row]:
    for number in _shuffled(source, range(1000, 1400)):
        asked, answered = source.choice(_PROBLEMS)
        yield {
            "messages": [
                {"role": "user", "content": asked.format(n=number)},
                {"role": "assistant", "content": answered.format(n=number)},
            ]
        }


def _tagged(source: random.Random) -> Iterator[Row]:
    for left, right in _shuffled(source, itertools.product(range(1, 17), range(1, 17))):
        yield {
            "prompt": f"What is {left} + {right}? Think between <think> and </think>, "
            "then give the number between <answer> and </answer>.",
            "answer": str(left + right),
        }


def _programs(source: random.Random) -> Iterator[Row]:
    verbs: dict[str, Callable[[int, int], int]] = {
        "adds {n} to x": lambda x, n: x + n,
        "multiplies x by {n}": lambda x, n: x * n,
        "subtracts {n} from x": lambda x, n: x - n,
        "returns the remainder of x divided by {n}": lambda x, n: x % n,
    }
    for (said, apply), number in _shuffled(source, itertools.product(verbs.items(), range(2, 70))):
        yield {
            "prompt": f"Write a Python function f(x) that {said.format(n=number)}. Reply with the code only.",
            "tests": [f"assert f({x}) == {apply(x, number)}" for x in (0, 5, 12)],
        }


def _pairs(source: random.Random) -> Iterator[Row]:
    facts = [(f"What is the capital of {land}?", f"It is {city}.") for land, city in _CITIES.items()]
    facts += [(f"What color is {thing}?", f"It is {color}.") for thing, color in _COLORS.items()]
    endings = ("", " Be brief.", " Answer in one sentence.", " I am in a hurry.", " It is for a quiz.", " Please.")
    varied = tuple(f"{ending}{more}" for ending in endings for more in ("", " Thanks!", f" {_NAMES[0]} asks."))
    rude = ("Why should I know?", "Look it up yourself.", "That is a boring question.", "I would rather not say.")
    for (question, answer), ending in _shuffled(source, itertools.product(facts, varied)):
        yield {"prompt": f"{question}{ending}", "chosen": answer, "rejected": source.choice(rude)}
    for number in range(1000, 1100):
        asked, answered = source.choice(_PROBLEMS)
        chosen, rejected = answered.format(n=number), source.choice(rude)
        yield {"prompt": asked.format(n=number), "chosen": chosen, "rejected": rejected}


def _questions(source: random.Random) -> Iterator[Row]:
    shapes = ("Explain {what} to a child.", "Name two uses of {what}.", "Write one sentence about {what}.")
    things = [f"{adjective} {thing}" for adjective in ("old", "new", "small", "large", "lost") for thing in _THINGS]
    for shape, what in _shuffled(source, itertools.product(shapes, [*things, *_CITIES.values(), *_CITIES, *_NAMES])):
        yield {"prompt": shape.format(what=what)}
    for asked, number in _shuffled(source, itertools.product([asked for asked, _ in _PROBLEMS], range(2000, 2040))):
        yield {"prompt": asked.format(n=number)}


def _shuffled(source: random.Random, items: Any) -> list[Any]:
    found = list(items)
    source.shuffle(found)
    return found


EXAMPLES: tuple[Example, ...] = (
    Example("arithmetic", "Example: arithmetic in words", _arithmetic),
    Example("support", "Example: questions about orders", _support),
    Example("tagged", "Example: answers in tags", _tagged),
    Example("programs", "Example: small programs with tests", _programs),
    Example("pairs", "Example: better and worse replies", _pairs),
    Example("questions", "Example: questions without answers", _questions),
)
BY_KEY = {example.key: example for example in EXAMPLES}
