"""The built-in environments by their rules, and the tasks that they make."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.envs import ENVIRONMENTS
from trainers.envs.countdown import evaluate, expression_in


def played(kind: str, task: dict, *replies: str) -> list:
    world = ENVIRONMENTS[kind].make()
    world.reset(task)
    return [world.step(reply) for reply in replies]


def test_a_sum_that_is_right_at_once_earns_all():
    (turn,) = played("sums", {"a": 3, "b": 4}, "3 + 4 is 7.")
    assert (turn.message, turn.reward, turn.accurate, turn.parts) == (None, 1.0, True, {"first_try": 1.0})


def test_a_wrong_sum_may_be_tried_once_more_for_half():
    first, second = played("sums", {"a": 3, "b": 4}, "8", "7")
    assert first.message is not None and first.reward == 0 and not first.accurate
    assert (second.message, second.reward, second.accurate) == (None, 0.5, True)
    assert played("sums", {"a": 3, "b": 4}, "8", "")[-1].message is None


NUMBERS = {"numbers": [3, 5, 8], "target": 64}


def test_countdown_takes_an_expression_and_tells_what_a_wrong_one_makes():
    (right,) = played("countdown", NUMBERS, "The answer:\n(3 + 5) * 8 = 64")
    assert right.accurate and right.reward == 1.0 and right.message is None
    wrong, odd, last = played("countdown", NUMBERS, "3 + 5", "no idea", "8 * 3")
    assert wrong.message == "That makes 8, not 64. Try again." and odd.message.endswith("Try again.")
    assert last.message is None and last.reward == 0.1 and not last.accurate


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("3+5*8", Fraction(43)),
        ("(8-5)/3", Fraction(1)),
        ("5/3", Fraction(5, 3)),
        ("8*8", "8 is used more often than it is given."),
        ("4+3", "4 is used more often than it is given."),
        ("3/(5-5)", "5 is used more often than it is given."),
        ("8/(3-3)", "3 is used more often than it is given."),
        ("3**5", "That is not a well-formed expression."),
        ("3//5", "That is not a well-formed expression."),
        ("(3+5", "That is not a well-formed expression."),
        ("-3+5", "That is not a well-formed expression."),
        ("3.5", "Write one expression of the given numbers, with + - * / and brackets."),
        ("__import__('os')", "Write one expression of the given numbers, with + - * / and brackets."),
        ("", "Write one expression of the given numbers, with + - * / and brackets."),
        ("(" * 150 + "3" + ")" * 40, "That is not a well-formed expression."),
        ("3" * 500, "Write one expression of the given numbers, with + - * / and brackets."),
    ],
)
def test_an_expression_is_worth_its_exact_value_or_a_reason(text, result):
    assert evaluate(text, [3, 5, 8]) == result


def test_a_division_by_zero_is_said():
    assert evaluate("8/(5-5)", [5, 5, 8]) == "That divides by zero."


def test_the_expression_is_the_first_line_with_a_digit():
    assert expression_in("Let me see.\n`3 × 5 − 8` = 7\n9 + 9") == "3 * 5 - 8"
    assert expression_in("none here") == ""


def test_guessing_is_told_higher_or_lower_and_pays_less_later():
    task = {"highest": 10, "secret": 7}
    high, none, found = played("guess", task, "9", "hm", "It is 7")
    assert high.message == "It is lower." and "no number" in none.message
    assert found.accurate and found.message is None and found.reward == pytest.approx(3 / 5)
    assert played("guess", task, "7")[0].reward == 1.0
    turns = played("guess", task, "1", "2", "3", "4", "5")
    assert [turn.message for turn in turns] == ["It is higher."] * 4 + [None] and turns[-1].reward == 0


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_tasks_are_different_and_begin_with_their_own_question(kind):
    tasks = ENVIRONMENTS[kind].tasks(60, seed=4)
    assert tasks == ENVIRONMENTS[kind].tasks(60, seed=4) != ENVIRONMENTS[kind].tasks(60, seed=5)
    assert len(tasks) == 60 and len({str(task) for task in tasks}) == 60
    for task in tasks:
        assert ENVIRONMENTS[kind].make().reset(task) == task["prompt"]
        assert played(kind, task, task["answer"])[0].accurate, "the answer of a task solves it"


@pytest.mark.parametrize(
    ("kind", "task", "words"),
    [
        ("sums", {"a": 1}, "'b' must hold a whole number"),
        ("sums", {"a": 1, "b": "two"}, "'b'"),
        ("sums", {"a": True, "b": 1}, "'a'"),
        ("countdown", {"numbers": [1], "target": 1}, "2 to 8"),
        ("countdown", {"numbers": "none", "target": 1}, "2 to 8"),
        ("countdown", {"numbers": [1, None], "target": 1}, "'numbers'"),
        ("countdown", {"numbers": [1, 2]}, "'target'"),
        ("guess", {"highest": 1, "secret": 1}, "'highest'"),
        ("guess", {"highest": 9, "secret": 10}, "'secret' must hold a whole number from 1 to 9"),
    ],
)
def test_a_row_without_a_task_is_refused_by_its_column(kind, task, words):
    with pytest.raises(ValueError, match=words):
        ENVIRONMENTS[kind].make().reset(task)


def test_columns_from_a_csv_are_read():
    world = ENVIRONMENTS["countdown"].make()
    assert world.reset({"numbers": "[3, 5, 8]", "target": "64"}).startswith("Use the numbers 3, 5, 8,")


@settings(max_examples=40)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=10))
def test_whatever_a_model_says_is_a_move(replies):
    tasks = {"sums": {"a": 1, "b": 2}, "countdown": NUMBERS, "guess": {"highest": 9, "secret": 2}}
    for kind, task in tasks.items():
        world = ENVIRONMENTS[kind].make()
        world.reset(task)
        for reply in replies:
            if world.step(reply).message is None:
                break
