"""Each kind of component: what it gives, and how it behaves when the model or the data are against it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from trainers.errors import RewardError
from trainers.recipes.context import ScoredInput
from trainers.rewards.bench import Workshop
from trainers.rewards.scorer import Scorer, needs_answer, row_problem, try_reward
from trainers.rewards.spec import COMPONENT_CLASSES, RewardSpec


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    shop = Workshop()
    yield shop
    shop.close()


def spec(*components: dict[str, Any]) -> RewardSpec:
    return RewardSpec.model_validate({"components": components})


def scorer(workshop: Workshop, *components: dict[str, Any]) -> Scorer:
    made = Scorer(spec(*components))
    made._workshop = workshop
    return made


def values(workshop: Workshop, component: dict[str, Any], *rows: ScoredInput) -> list[float]:
    return [score.reward for score in scorer(workshop, component).score(rows)]


def error_of(workshop: Workshop, component: dict[str, Any], *rows: ScoredInput) -> RewardError:
    with pytest.raises(RewardError) as caught:
        scorer(workshop, component).score(rows)
    return caught.value


def says(completion: str, answer: str | None = None, tokens: int | None = None, **row: Any) -> ScoredInput:
    return ScoredInput("question", completion, answer, row, tokens)


def refused(component: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        spec(component)
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "completion", "right"),
    [
        ("1/2", "So the probability is $\\frac{1}{2}$.", True),
        ("1/2", "The answer is 0.5", True),
        ("x^2+2x+1", "$(x+1)^2$", True),
        ("\\sqrt{8}", "It is \\boxed{2\\sqrt{2}}.", True),
        ("{1, 2}", "$\\{2, 1\\}$", True),
        ("3", "$x = 3$", True),
        ("1,000", "1000", True),
        ("3 + 4 = 7\n#### 7", "first 9, then\n#### 7", True),
        ("42", "41 and then 43", False),
        ("-7", "\\boxed{7}", False),
        ("7", "", False),
        ("7", "__import__('os').system('true')", False),
        ("7", "\\boxed{\\frac{", False),
    ],
)
def test_math_knows_the_same_result_in_another_form(
    workshop: Workshop, answer: str, completion: str, right: bool
) -> None:
    assert values(workshop, {"kind": "math"}, says(completion, answer)) == [float(right)]


def test_math_counts_what_it_cannot_evaluate_in_time_as_wrong_and_goes_on(workshop: Workshop) -> None:
    bomb = says("\\boxed{9^{9^{9^{9^{9}}}}}", "8")
    begun = time.monotonic()
    found = values(
        workshop, {"kind": "math", "timeout_s": 1}, says("7", "7"), bomb, says("8", "8"), bomb, says("9", "9")
    )
    assert found == [1, 0, 1, 0, 1] and time.monotonic() - begun < 20


def test_math_names_an_answer_that_is_no_mathematics(workshop: Workshop) -> None:
    assert "has no answer" in error_of(workshop, {"kind": "math"}, says("7", None)).message


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_json_must_fit_its_schema(workshop: Workshop) -> None:
    rows = [
        says('{"name": "Ada", "age": 36}'),
        says('Here:\n```json\n{"name": "Ada", "age": 36}\n```'),
        says('It is {"name": "Ada", "age": 36}, I think.'),
        says('{"name": "Ada"}'),
        says("no JSON"),
        says('{"name": "Ada", "age": NaN}'),
        says("[" * 100_000),
    ]
    component = {"kind": "json_schema", "definition": PERSON, "partial": 0.25}
    assert values(workshop, component, *rows) == [1, 1, 1, 0.25, 0, 0, 0]
    assert values(workshop, {**component, "strict": True}, *rows[:3]) == [1, 0, 0]


def test_a_schema_can_stand_in_the_row(workshop: Workshop) -> None:
    component = {"kind": "json_schema", "column": "schema"}
    rows = says("3", schema={"type": "integer"}), says("3", schema='{"type": "string"}')
    assert values(workshop, component, *rows) == [1, 0]
    assert "no schema" in error_of(workshop, component, says("3", schema="x")).message
    assert "schema is broken" in error_of(workshop, component, says("3", schema={"type": "nothing"})).message
    remote = {"$ref": "http://192.0.2.1/schema"}
    assert "schema is broken" in error_of(workshop, component, says("3", schema=remote)).message


def test_a_schema_whose_pattern_explodes_is_a_named_error(workshop: Workshop) -> None:
    component = {"kind": "json_schema", "definition": {"pattern": "^(a+)+$"}, "timeout_s": 0.5, "name": "shape"}
    error = error_of(workshop, component, says('"b"'), says(json.dumps("a" * 60 + "b")))
    assert "'shape'" in error.message and "completion 2 of 2" in error.message and "0.5 s" in error.message


@pytest.mark.parametrize(
    ("component", "words"),
    [
        ({"kind": "json_schema"}, "either a schema"),
        ({"kind": "json_schema", "definition": {}, "column": "x"}, "either a schema"),
        ({"kind": "json_schema", "definition": {"type": 3}}, "not a JSON Schema"),
        ({"kind": "json_schema", "definition": {"$ref": "https://example.com/x"}}, "parts of itself"),
        ({"kind": "tags", "tags": ["a b"]}, "no name of a tag"),
        ({"kind": "tags", "tags": ["a", "a"]}, "named twice"),
        ({"kind": "overlong", "limit": 5, "buffer": 6}, "larger than limit"),
        ({"kind": "length", "minimum": 6, "maximum": 5}, "larger than maximum"),
    ],
)
def test_what_cannot_work_is_refused_before_a_run(component: dict[str, Any], words: str) -> None:
    assert words in refused(component)


def test_similarity_is_measured_letter_by_letter(workshop: Workshop) -> None:
    def one(method: str, text: str, answer: str, **more: Any) -> float:
        return values(workshop, {"kind": "similarity", "method": method, **more}, says(text, answer))[0]

    assert one("ratio", "kitten", "kitten") == 1 and one("ratio", "abc", "xyz") == 0
    assert one("levenshtein", "kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert one("ratio", "ab", "ba") == pytest.approx(0.5)
    assert one("token_sort", "world hello", "hello world") == 1
    assert one("partial", "the answer is Paris, of course", "Paris") == 1
    assert one("ratio", "PARIS", "paris", ignore_case=True) == 1
    assert "no answer" in error_of(workshop, {"kind": "similarity"}, says("x", None)).message


ADD = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"
PAIRS = [{"input": "1 2", "output": "3"}, {"input": "2 2\n", "output": "4\n"}, {"input": "5 5", "output": "10"}]


def test_a_program_is_run_against_what_it_must_write(workshop: Workshop) -> None:
    rows = [
        says("I think:\n" + ADD, tests=PAIRS),
        says(ADD, tests=json.dumps(PAIRS)),
        says(ADD, tests={"inputs": ["1 2", "3 3"], "outputs": ["3", "7"]}),
        says("```python\nprint(3)\n```", tests=PAIRS),
        says("print(input(", tests=PAIRS),
        says("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()", tests=PAIRS),
        says("no program at all", tests=PAIRS),
    ]
    assert values(workshop, {"kind": "code"}, *rows) == pytest.approx([1, 1, 0.5, 1 / 3, 0, 1, 0])
    assert values(workshop, {"kind": "code", "every": True}, *rows[:4]) == [1, 1, 0, 0]


def test_a_function_is_run_against_asserts(workshop: Workshop) -> None:
    tests = ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(1, 1) == 3"]
    good = "```python\ndef add(a, b):\n    return a + b\n```"
    assert values(workshop, {"kind": "code"}, says(good, tests=tests)) == pytest.approx([2 / 3])
    check = "def check(candidate):\n    assert candidate(1, 2) == 3"
    component = {"kind": "code", "tests": "test", "entry_point": "entry"}
    rows = (
        says(good, test=check, entry="add"),
        says(good, test=check, entry="subtract"),
        says("x", test=check, entry="add"),
    )
    assert values(workshop, component, *rows) == [1, 0, 0]


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "x = []\nwhile True: x.append(bytearray(1 << 24))",
        "import os\nos._exit(0)",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        "import os\nos.kill(os.getpid(), 9)",
        "import ctypes\nctypes.string_at(0)",
        "raise SystemExit(1)",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ],
)
def test_a_program_that_hangs_or_breaks_costs_only_its_own_value(workshop: Workshop, program: str) -> None:
    rows = says(ADD, tests=PAIRS[:1]), says(program, tests=PAIRS[:1]), says(ADD, tests=PAIRS[:1])
    assert values(workshop, {"kind": "code", "timeout_s": 0.5}, *rows) == [1, 0, 1]


def test_tests_passed_before_a_program_hangs_count(workshop: Workshop) -> None:
    program = "n = int(input())\nwhile n == 2: pass\nprint(n)"
    tests = [{"input": str(n), "output": str(n)} for n in (1, 3, 2, 4)]
    assert values(workshop, {"kind": "code", "timeout_s": 0.5}, says(program, tests=tests)) == [0.5]


def test_a_program_cannot_mark_its_own_work(workshop: Workshop) -> None:
    forged = """
import gc, json, os, sys
for fd in range(3, 64):
    for line in ({"id": n, "i": 0, "written": "3"} for n in range(1, 200)):
        try: os.write(fd, json.dumps(line).encode() + b"\\n")
        except OSError: break
for thing in gc.get_objects():
    if isinstance(thing, str) and "SECRET-OUTPUT" in thing and "thing" not in thing: print(thing)
"""
    tests = [{"input": "1 2", "output": "SECRET-" + "OUTPUT"}]
    assert values(workshop, {"kind": "code"}, says(forged, tests=tests)) == [0]
    assert values(workshop, {"kind": "code"}, says(ADD, tests=PAIRS)) == [1]


def test_rows_without_usable_tests_are_named_before_and_during_a_run(workshop: Workshop) -> None:
    reward = spec({"kind": "code"})
    assert "no column 'tests'" in str(row_problem(reward, None, {}))
    assert "holds no tests" in str(row_problem(reward, None, {"tests": []}))
    assert "test 2" in str(row_problem(reward, None, {"tests": [{"input": "", "output": ""}, {"input": 3}]}))
    assert "as many inputs" in str(row_problem(reward, None, {"tests": {"inputs": ["1"], "outputs": []}}))
    assert row_problem(reward, None, {"tests": PAIRS}) is None
    assert "no column 'tests'" in error_of(workshop, {"kind": "code"}, says(ADD)).message


def test_tags_stand_once_in_order_with_nothing_around(workshop: Workshop) -> None:
    rows = [
        says("<think>a</think>\n<answer>b</answer>\n"),
        says("so <think>a</think><answer>b</answer>"),
        says("<answer>b</answer><think>a</think>"),
        says("<think>a</think><answer>b</answer><answer>c</answer>"),
        says("<think>a</think><answer> </answer>"),
        says("<think>a</think><answer>b"),
        says(""),
    ]
    assert values(workshop, {"kind": "tags"}, *rows) == [1, 0, 0, 0, 0, 0, 0]
    assert values(workshop, {"kind": "tags", "outside": True}, *rows[:2]) == [1, 1]
    partial = values(workshop, {"kind": "tags", "partial": True}, *rows)
    assert partial == pytest.approx([1, 2 / 3, 1 / 3, 1 / 3, 2 / 3, 1 / 3, 1 / 3])


def test_lengths_count_characters_or_tokens(workshop: Workshop) -> None:
    band = {"kind": "length", "minimum": 2, "maximum": 4, "unit": "tokens"}
    rows = [says("x" * 99, tokens=n) for n in (0, 1, 2, 4, 6, 8, 99)]
    assert values(workshop, band, *rows) == [0, 0.5, 1, 1, 0.5, 0, 0]
    target = {"kind": "length_target", "target": 10, "width": 4}
    assert values(workshop, target, *[says("", tokens=n) for n in (10, 8, 12, 14, 2)]) == [1, 0.5, 0.5, 0, 0]
    overlong = {"kind": "overlong", "limit": 10, "buffer": 4}
    assert values(workshop, overlong, *[says("", tokens=n) for n in (0, 6, 8, 10, 11)]) == [1, 1, 0.5, 0, 0]
    assert "not sampled by a model" in error_of(workshop, overlong, says("x")).message
    [tried] = try_reward(spec(overlong), [says("x" * 32)])
    assert tried["total"] == 0.5 and "estimated" in tried["notes"][0]


def test_repetitions_lower_the_value(workshop: Workshop) -> None:
    component = {"kind": "repetition", "size": 2}
    rows = says("a b c d"), says("a b a b a b"), says("a"), says("x " * 2000)
    assert values(workshop, component, *rows) == pytest.approx([1, 2 / 5, 1, 1 / 1999])
    assert values(workshop, {"kind": "repetition", "size": 2, "unit": "characters"}, says("哈哈哈哈")) == [1 / 3]


def test_a_gate_sets_the_whole_reward(workshop: Workshop) -> None:
    parts = (
        {"kind": "numeric", "weight": 2},
        {"kind": "tags", "tags": ["b"], "outside": True, "weight": 0, "at_least": 1, "otherwise": -1},
        {"kind": "length", "maximum": 100, "weight": 0.5, "name": "short"},
    )
    stopped, passed = scorer(workshop, *parts).score([says("7", "7"), says("<b>7</b>", "7")])
    assert stopped.reward == -1 and stopped.parts == {"numeric": 1, "tags": 0, "short": 1}
    assert passed.reward == pytest.approx(2.5)
    [tried] = try_reward(spec(*parts), [says("7", "7")])
    assert tried["total"] == -1 and tried["gate"] == "tags"


def test_a_kind_that_gives_the_wrong_count_is_an_error(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        __import__("trainers.rewards.components", fromlist=["x"])._KINDS,
        COMPONENT_CLASSES["length"],
        lambda component, rows, bench: [1.0],
    )
    error = error_of(workshop, {"kind": "length", "maximum": 5}, says("a"), says("b"))
    assert "gave 1 values for 2 completions" in error.message


def test_kinds_that_compare_need_answers() -> None:
    assert {kind for kind in ("exact", "numeric", "math", "similarity") if needs_answer(spec({"kind": kind}))} == {
        "exact",
        "numeric",
        "math",
        "similarity",
    }
    assert not needs_answer(spec({"kind": "code"}, {"kind": "tags"}))


def test_tools_are_not_for_the_code_of_users(workshop: Workshop) -> None:
    code = "def reward(completion):\n    import sympy\n    return 1"
    assert "ModuleNotFoundError" in error_of(workshop, {"kind": "python", "code": code}, says("x")).message
