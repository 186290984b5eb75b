"""The functions under the charts: smoothing, thinning, merging, formatting. Run where they run, in a browser."""

from __future__ import annotations

from typing import Any

import pytest

from workspaces import formats

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CURVES = """async () => {
  const { smooth, thin, trend } = await import("/static/js/jobs/curves.js");
  const { MetricStore } = await import("/static/js/jobs/store.js");
  const { clean } = await import("/static/js/jobs/log.js");
  const { backOff } = await import("/static/js/jobs/live.js");
  const { number, money, left } = await import("/static/js/jobs/format.js");
  const long = Array.from({ length: 10000 }, (_, n) => Math.sin(n / 50));
  long[4321] = 99;
  long[1234] = -99;
  long[777] = null;
  const store = new MetricStore();
  const point = (attempt, seq, step, value) => [attempt, seq, step, value, 1000 + seq, 0, 0];
  store.add({ a: [point(1, 2, 2, 0.2), point(1, 1, 1, 0)] });
  store.add({ a: [point(1, 2, 2, 0.2), point(1, 3, 3, "NaN")] });
  store.add({ a: [point(2, 1, 2, 0.25)] });
  const kept = thin(long, 500);
  const longer = thin(long.slice(0, 9000), 500);
  return {
    constant: smooth([2e-4, 2e-4, 2e-4, 2e-4], 0.9),
    first: smooth([5, 1, 1], 0.5)[0],
    gaps: smooth([1, null, 1], 0.9),
    off: smooth([1, 5, 2], 0),
    kept: kept.length,
    extremes: [1234, 4321, 777, 9999].every((index) => kept.includes(index)),
    stable: longer.slice(0, -8).every((index, place) => kept[place] === index),
    sparse: thin([1, 2, 3], 500),
    steps: store.get("a").points.map((p) => p.step),
    values: store.get("a").points.map((p) => p.value),
    nonFinite: store.get("a").nonFinite,
    restarts: store.get("a").restarts.length,
    again: store.add({ a: [point(2, 1, 2, 0.25)] }).size,
    cleaned: clean("\\u001b[1mbold\\u001b[0m\\n 1%\\r 2%\\r"),
    waits: [backOff(0, 500, 15000, () => 0), backOff(3, 500, 15000, () => 1), backOff(99, 500, 15000, () => 1)],
    numbers: [number(1234567), number(0.03127), number(2e-5), number("NaN"), number(-0.5), number(0)],
    money: [money("0.031"), money("12.5"), money("0"), money("1234.5", "EUR")],
    left: [left(20), left(380), left(7200), left(NaN)],
  };
}"""


def test_the_pure_parts(visit: Any, alice: Any, project: Any):
    found = visit(alice).open("/").evaluate(CURVES)
    assert found["constant"] == [2e-4] * 4, "a constant series is unchanged"
    assert found["first"] == 5 and found["gaps"] == [1, None, 1] and found["off"] == [1, 5, 2]
    assert found["kept"] <= 700 and found["extremes"] and found["stable"] and found["sparse"] == [0, 1, 2]
    assert found["steps"] == [1, 2] and found["values"] == [0, 0.25], "zero is a value; the later attempt holds"
    assert found["nonFinite"] == 0 and found["restarts"] == 1 and found["again"] == 0
    assert found["cleaned"] == "bold\n 2%"
    assert found["waits"] == [250, 4000, 15000]
    assert found["numbers"] == [formats.number(v) for v in (1234567, 0.03127, 2e-5, float("nan"), -0.5, 0)]
    assert found["money"] == [
        formats.money("0.031"), formats.money("12.5"), formats.money("0"), formats.money("1234.5", "EUR"),
    ]  # fmt: skip
    assert found["left"] == ["less than a minute left", "about 6 min left", "about 2.0 h left", ""]
