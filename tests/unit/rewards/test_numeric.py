from __future__ import annotations

import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.rewards.numeric import close, marked_answer, number_of, numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", "42"),
        ("42.", "42"),
        ("it is 7 or 8", "7 8"),
        ("1,234,567.50 dollars", "1234567.5"),
        ("1,2,3", "1 2 3"),
        ("5-3=2", "5 3 2"),
        ("5 - -3", "5 -3"),
        ("x = -3", "-3"),
        ("(3)-4", "3 4"),
        ("pages 3–5", "3 5"),  # a dash between two numbers is no sign
        ("−7 and －８", "-7 -8"),
        ("答案是４２。", "42"),
        ("共３．５％", "3.5"),
        ("三十", ""),
        ("3/4", "0.75"),
        ("-1/2", "-0.5"),
        ("1/2/2024", "1 2 2024"),
        ("1/0", ""),
        ("\\frac{3}{4}", "0.75"),
        ("2e3 and 1E-2", "2000 0.01"),
        ("v1.2.3", "1.2"),
        ("about .5, -.5", "0.5 -0.5"),
        ("...5", "5"),
        ("no number", ""),
    ],
)
def test_it_reads_numbers_as_people_write_them(text: str, expected: str) -> None:
    assert [number.value for number in numbers(text)] == [Decimal(part) for part in expected.split()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("48 / 2 = 24\n#### 72", "72"),
        ("first \\boxed{5}, then \\boxed{\\frac{1}{2}} of 9", "0.5"),
        ("#### 1,000\n", "1000"),
        ("so it is 3, no, 4", "4"),
        ("\\boxed{7", "7"),
    ],
)
def test_a_marked_answer_is_the_only_thing_read(text: str, expected: str) -> None:
    found = number_of(text)
    assert found is not None and found.value == Decimal(expected)


def test_a_mark_without_a_number_gives_none_rather_than_another_number() -> None:
    assert number_of("12 apples\n#### none") is None


def test_first_and_last_differ() -> None:
    assert number_of("3 then 4", "first") == (Decimal(3), False)
    assert number_of("3 then 4", "last") == (Decimal(4), False)


def test_a_text_without_a_mark_has_no_marked_answer() -> None:
    assert marked_answer("just text") is None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**15), max_value=10**15))
def test_it_reads_back_what_python_writes(value: Decimal) -> None:
    for text in (
        f"{value}",
        f"the answer is {value:,}.",
        f"{value}".translate(str.maketrans("0123456789-", "０１２３４５６７８９−")),
    ):
        found = number_of(text)
        assert found is not None and found.value == value


@given(st.text(alphabet="0123456789.,-+/%eE \\frac{}boxed#１．−", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    for number in numbers(text):
        assert number.value.is_finite()
    number_of(text)


def test_a_difference_is_measured_without_loss_of_digits() -> None:
    one, other = number_of("12345678901234567890123456789012"), number_of("12345678901234567890123456789013")
    assert one is not None and other is not None
    assert not close(one, other, 0.5) and close(one, other, 1.0)


@pytest.mark.parametrize(("one", "other", "right"), [("50%", "0.5", True), ("50%", "50", True), ("50%", "0.5%", False)])
def test_a_percent_sign_may_be_applied_or_left_out(one: str, other: str, right: bool) -> None:
    left_number, right_number = number_of(one), number_of(other)
    assert left_number is not None and right_number is not None
    assert close(left_number, right_number, 1e-9) is right


@pytest.mark.parametrize(
    "piece", ["9", "1,234", "1/", "1,", "1.", "1e", "\\frac{", "\\frac{1}{", "1/2/", " ", "-", "####"]
)
def test_its_time_grows_with_the_length_of_the_text_alone(piece: str) -> None:
    started = time.process_time()
    number_of(piece * (200_000 // len(piece)))
    assert time.process_time() - started < 2
