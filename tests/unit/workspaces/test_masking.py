"""Masking: every form in which a value can stand in a text, and nothing else."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest

from workspaces.masking import MASKED, Mask

VALUE = 'p4ss"wörd/with+all & <kinds>'


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        quote(VALUE, safe=""),
        quote(VALUE),
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        html.escape(VALUE),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_it_hides_a_value_in_every_form(form: str):
    hidden = Mask([VALUE]).text(f"before {form} after {form}")
    assert hidden.startswith(f"before {MASKED}")
    assert hidden.rstrip("=").endswith(f"after {MASKED}")
    assert form.rstrip("=") not in hidden


def test_it_hides_each_line_of_a_key_file():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----"
    hidden = Mask([key]).text("the log quotes hkiG9w0BAQEFAASC alone")
    assert hidden == f"the log quotes {MASKED} alone"
    assert Mask([key]).text(f"[{key}]") == f"[{MASKED}]"


def test_the_longer_of_two_values_goes_first():
    assert Mask(["abcdefgh", "abcdefgh-ijkl"]).text("abcdefgh-ijkl abcdefgh") == f"{MASKED} {MASKED}"


def test_short_values_are_left_alone():
    assert Mask(["abc", ""]).text("abc") == "abc"
    assert not Mask(["abc"])


def test_it_walks_through_json_and_leaves_the_original_as_it_was():
    spec = {"a": [VALUE, 1, None, True], VALUE: {"b": f"x{VALUE}"}, "n": 1.5}
    hidden = Mask([VALUE]).value(spec)
    assert hidden == {"a": [MASKED, 1, None, True], MASKED: {"b": f"x{MASKED}"}, "n": 1.5}
    assert spec["a"][0] == VALUE
    assert Mask().value(spec) is spec


def test_a_value_with_regular_expression_signs_is_only_text():
    assert Mask(["a.c(d)*[e]"]).text("abc a.c(d)*[e]") == f"abc {MASKED}"
