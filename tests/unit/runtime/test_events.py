"""Events: checked against the contract, cleaned of what no database holds, cut when too large."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.runtime import events

ROLLOUT: dict[str, Any] = {
    "step": 3, "phase": "train", "group": 0, "index": 1, "prompt": "2+3?", "completion": "5", "answer": "5",
    "reward": 1.0, "parts": {"exact": 1.0}, "accurate": True, "tokens": 2, "truncated": False,
    "prompt_key": "ab12", "greedy": False,
}  # fmt: skip


def _line(event: events.Event) -> bytes:
    return events.number(events.body(event), 1, 12.5)


def test_an_event_comes_back_as_it_went_in() -> None:
    event = events.make("rollout", **ROLLOUT)
    assert events.decode(_line(event)) == {"seq": 1, "t": 12.5, "kind": "rollout", **ROLLOUT}


def test_not_a_number_and_infinities_are_kept() -> None:
    event = events.make("metric", step=1, values={"a": math.nan, "b": math.inf, "c": -math.inf}, tokens=1, active_s=0.5)
    values = events.decode(_line(event))["values"]
    assert math.isnan(values["a"])
    assert (values["b"], values["c"]) == (math.inf, -math.inf)


def test_scalars_of_numpy_become_plain_numbers() -> None:
    values = {"a": np.float32(0.5), "b": np.int64(3), "c": np.array(2.0)}
    event = events.make("metric", step=np.int64(2), values=values, tokens=np.int64(7), active_s=np.float64(1.5))
    assert json.loads(events.body(event)) == {
        "kind": "metric", "step": 2, "values": {"a": 0.5, "b": 3, "c": 2.0}, "tokens": 7, "active_s": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("gossip", {}, "no event kind 'gossip'"),
        ("log", {"text": "x"}, "needs the field 'level'"),
        ("log", {"level": "loud", "text": "x"}, "log.level is 'loud'"),
        ("state", {"state": "maybe", "result": None, "error": None}, "state.state is 'maybe'"),
        ("metric", {"step": 1.5, "values": {}, "tokens": 1, "active_s": 1.0}, "metric.step cannot be float"),
        ("metric", {"step": True, "values": {}, "tokens": 1, "active_s": 1.0}, "metric.step cannot be bool"),
        ("metric", {"step": 1, "values": {"a": "x"}, "tokens": 1, "active_s": 1.0}, "'a'.* cannot be str"),
        ("rollout", {**ROLLOUT, "accurate": 1}, "rollout.accurate cannot be int"),
    ],
)
def test_it_refuses_what_breaks_the_contract(kind: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        events.make(kind, **fields)


def test_text_that_no_database_holds_is_replaced() -> None:
    event = events.make("log", level="info", text="a\x00b\ud800c")
    assert event["text"] == "a\ufffdb\ufffdc"
    assert events.decode(_line(event))["text"] == "a\ufffdb\ufffdc"


def test_long_metric_names_are_cut_and_stay_apart() -> None:
    values = {"m" * 1_000_000 + "a": 1.0, "m" * 1_000_000 + "b": 2.0}
    kept = events.make("metric", step=1, values=values, tokens=0, active_s=0.0)["values"]
    assert sorted(kept.values()) == [1.0, 2.0]
    assert all(len(name) <= 200 and "…" in name for name in kept)


def test_a_huge_rollout_is_cut_with_a_mark() -> None:
    data = events.body(events.make("rollout", **{**ROLLOUT, "completion": "x" * 3_000_000}))
    event = json.loads(data)
    assert len(data) <= events.MAX_EVENT_BYTES
    assert event["prompt"] == "2+3?"
    assert event["completion"].endswith("… [2934464 characters left out]")
    size = len(events.body(events.make("rollout", **ROLLOUT))) - 1 + 3_000_000
    assert event["cut"] == f"This event had {size} bytes; parts of it were left out."


def test_a_metric_event_with_too_many_keys_keeps_the_first() -> None:
    values = {f"layer/{i}/norm": float(i) for i in range(50_000)}
    data = events.body(events.make("metric", step=1, values=values, tokens=0, active_s=0.0))
    event = json.loads(data)
    assert len(data) <= events.MAX_EVENT_BYTES
    assert list(event["values"])[:2] == ["layer/0/norm", "layer/1/norm"]
    assert 1000 <= len(event["values"]) < 50_000
    assert "left out" in event["cut"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda k: k not in ("kind", "step", "seq", "t")), _json, max_size=5
    ),
    st.integers(200, 2000),
)
def test_any_event_fits_its_limit_and_is_one_line_of_json(extra: dict[str, Any], limit: int) -> None:
    event = {**events.make("log", level="info", text="x"), **events.clean(extra)}
    data = events.body(event, limit)
    line = events.number(data, 7, 1.0)
    assert len(data) <= limit
    assert line.count(b"\n") == 1
    assert events.decode(line)["seq"] == 7


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]\n", b'{"kind":"log"}\n', b'{"seq":"1","kind":"log"}\n', b"\x00\x00\n"]
)
def test_a_damaged_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        events.decode(line)
