from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.data.inspection import inspect_dataset
from trainers.data.report import Report
from trainers.spec import Columns


def inspect(content: bytes, name: str = "data.jsonl", columns: Columns | None = None) -> Report:
    report = inspect_dataset(io.BytesIO(content), name, columns)
    assert Report.model_validate_json(report.model_dump_json()) == report
    return report


def jsonl(*rows: Any) -> bytes:
    return b"".join(
        row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows
    )


def errors(report: Report) -> dict[int | None, str]:
    return {problem.line: problem.kind for problem in report.problems if problem.severity == "error"}


def test_two_thousand_rows_with_seven_bad_ones_are_told_by_line_and_reason() -> None:
    rows: list[Any] = [
        {"编号": n, "数学题": f"第{n}题：{n} 加 {n + 1} 等于多少？", "标准结论": f"{2 * n + 1}"} for n in range(2000)
    ]
    rows[16] = b'{"\xe7\xbc\x96\xe5\x8f\xb7": 17, "broken\n'
    rows[199] = {"编号": 200, "数学题": "   ", "标准结论": "1"}
    rows[512] = {"编号": 513, "数学题": "空答案？", "标准结论": None}
    rows[777] = {"编号": 778, "数学题": ["不是", "文字"], "标准结论": "3"}
    rows[1000] = b'{"\xff\xfe": 1}\n'
    rows[1500] = [1, 2, 3]
    rows[1999] = {"编号": 2000, "标准结论": "5"}
    report = inspect(jsonl(*rows), "题库.jsonl", Columns(prompt="数学题", answer="标准结论"))
    assert (report.rows, report.usable, report.bad) == (2000, 1993, 7)
    assert errors(report) == {
        17: "broken_json",
        200: "empty_prompt",
        513: "empty_answer",
        778: "wrong_messages",
        1001: "not_utf8",
        1501: "not_object",
        2000: "missing_column",
    }
    assert all(problem.message and problem.advice for problem in report.problems)
    assert [problem for problem in report.problems if problem.severity == "warning"] == []
    assert report.numeric_answers == 1993


def test_unknown_column_names_are_listed_with_what_to_do() -> None:
    report = inspect(jsonl({"甲": "一加一？", "乙": "2"}, {"甲": "二加二？", "乙": "4"}))
    assert (report.rows, report.usable) == (2, 0)
    [problem] = report.problems
    assert problem.kind == "no_prompt_column" and "'甲' and '乙'" in problem.message and "Choose" in problem.advice
    assert [(column.name, column.filled, column.examples) for column in report.columns] == [
        ("甲", 2, ["一加一？", "二加二？"]),
        ("乙", 2, ["2", "4"]),
    ]


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    report = inspect(jsonl({"a": "x", "b": "y"}), columns=Columns(prompt="c"))
    assert "no column 'c' for the prompt" in report.problems[0].message and "'a' and 'b'" in report.problems[0].message


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({"question": "q", "answer": "a"}, {"question": "prompt", "answer": "answer"}),
        ({"Prompt": "q", "Completion": "a"}, {"Prompt": "prompt", "Completion": "answer"}),
        ({"问题": "q", "回答": "a"}, {"问题": "prompt", "回答": "answer"}),
        ({"题目": "q", "答案": "a", "系统": "s"}, {"题目": "prompt", "答案": "answer", "系统": "system"}),
        (
            {"id": "1", "math_question": "q", "answer_type": "n", "solution": "a"},
            {"math_question": "prompt", "solution": "answer"},
        ),
        (
            {"instruction": "q", "input": "more", "output": "a"},
            {"instruction": "prompt", "input": "context", "output": "answer"},
        ),
        ({"input": "q", "output": "a"}, {"input": "prompt", "output": "answer"}),
        ({"messages": [{"role": "user", "content": "q"}], "label": "a"}, {"messages": "messages", "label": "answer"}),
        ({"prompt": "q", "messages": [{"role": "user", "content": "q"}]}, {"messages": "messages"}),
        ({"userPrompt": "q", "referenceAnswer": "a"}, {"userPrompt": "prompt", "referenceAnswer": "answer"}),
    ],
)
def test_columns_are_found_by_their_usual_names(row: dict[str, Any], parts: dict[str, str]) -> None:
    report = inspect(jsonl(row))
    assert {column.name: column.part for column in report.columns if column.part} == parts
    assert report.usable == 1 and all(column.reason for column in report.columns if column.part)


def test_repeats_are_warnings_with_the_first_line() -> None:
    report = inspect(
        jsonl(
            {"prompt": "a", "answer": "1"},
            {"prompt": "b", "answer": "1"},
            {"prompt": "a", "answer": "1"},
            {"prompt": "a", "answer": "2"},
        )
    )
    assert report.usable == 4
    assert [(p.line, p.kind, "line 1" in p.message) for p in report.problems] == [
        (3, "duplicate", True),
        (4, "conflicting_answer", True),
    ]


def test_the_list_of_problems_is_capped_and_the_counts_are_exact() -> None:
    report = inspect(jsonl(*[{"prompt": "", "answer": "1"}] * 1000, {"prompt": "p", "answer": "1"}))
    assert report.counts == {"empty_prompt": 1000} and report.bad == 1000
    assert len(report.problems) == 200


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([], "no_user_turn"),
        ([{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}], "no_user_turn"),
        ([{"role": "user", "content": "  "}], "no_user_turn"),
        ([{"role": "user", "content": 3}], "wrong_type"),
        ([{"role": "robot", "content": "x"}], "wrong_messages"),
        (["hello"], "wrong_messages"),
        ("hello", "wrong_type"),
        (None, "wrong_type"),
    ],
)
def test_chats_that_cannot_be_used_say_why(messages: Any, kind: str) -> None:
    good = {"messages": [{"role": "user", "content": "q"}]}
    assert errors(inspect(jsonl(good, {"messages": messages}))) == {2: kind}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"prompt": "a\u0000b"}, "nul"),
        ({"prompt": "x" * 500_000}, "too_long"),
        (b'{"prompt": "\\ud83d"}\n', "not_utf8"),
        (b'{"prompt": "a\0b"}\n', "nul"),
        (b'{"prompt": "a"\n', "broken_json"),
        (b'{"prompt": ' + b"9" * 5000 + b"}\n", "broken_json"),
        (b"[" * 100_000 + b"\n", "broken_json"),
        (b'{"prompt": "' + b"x" * (5 << 20) + b'"}\n', "too_long"),
        ({"prompt": 3}, "wrong_type"),
        ({"question": "p"}, "missing_column"),
        (b"null\n", "not_object"),
        (b"prompt\n", "broken_json"),
    ],
)
def test_each_kind_of_bad_row_is_named(row: Any, kind: str) -> None:
    report = inspect(jsonl({"prompt": "one"}, row, {"prompt": "three"}))
    assert errors(report) == {2: kind} and report.usable == 2


def test_blank_lines_keep_the_line_numbers_right() -> None:
    assert errors(inspect(b'\n{"prompt": "a"}\r\n\r\n{"prompt": ""}\r\n')) == {4: "empty_prompt"}


def test_lengths_preview_and_notes_describe_the_data() -> None:
    report = inspect(jsonl(*[{"question": "q" * n, "answer": f"because\n#### {n}"} for n in range(1, 101)]))
    lengths = report.lengths["prompt"]
    assert (lengths.smallest, lengths.mean, lengths.median, lengths.p95, lengths.largest) == (1, 50.5, 51, 96, 100)
    assert len(report.preview) == 10 and report.preview[0].line == 1
    assert report.preview[1].messages == [{"role": "user", "content": "qq"}]
    assert report.marked_answers == 100 and any("####" in note for note in report.notes)


def test_rows_with_other_columns_and_types_are_one_warning_each() -> None:
    report = inspect(
        jsonl({"prompt": "a", "x": 1}, {"prompt": "b", "x": "one"}, {"prompt": "c"}, {"prompt": "d", "y": 1})
    )
    assert {p.kind: p.line for p in report.problems} == {"mixed_columns": 3, "mixed_types": None}
    assert report.counts == {"mixed_columns": 2, "mixed_types": 1} and report.usable == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"  \n \n", "empty"),
        (b"PAR1....", "Parquet"),
        (b"PK\x03\x04....", "Excel"),
        (b"\x1f\x8b....", "gzip"),
        (bytes(100), "not a text file"),
        (bytes(range(256)) * 10, ""),
    ],
)
def test_files_that_are_no_datasets_are_refused_in_words(content: bytes, words: str) -> None:
    report = inspect(content, "data.bin")
    assert not report.ready and words in report.problems[0].message


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(alphabet='{}[]",:\n\r \\ab1é中', max_size=200).map(str.encode)))
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_no_content_breaks_the_inspection(name: str, content: bytes) -> None:
    report = inspect(content, name)
    assert report.rows == report.usable + report.bad or report.usable == 0


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_a_file_is_read_in_pieces(kind: str) -> None:
    """Nothing may ask for the whole file at once."""

    class Pieces(io.RawIOBase):
        def __init__(self, content: bytes) -> None:
            self._content, self._at, self._random = content, 0, random.Random(1)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            assert 0 < size <= 1 << 20
            piece = self._content[self._at : self._at + min(size, self._random.randrange(1, 5000))]
            self._at += len(piece)
            return piece

    rows = [{"prompt": f"第{n}题", "answer": str(n)} for n in range(20_000)]
    content = {
        "jsonl": jsonl(*rows),
        "json": json.dumps(rows, ensure_ascii=False).encode(),
        "csv": b"prompt,answer\n" + b"".join(f"{row['prompt']},{row['answer']}\n".encode() for row in rows),
    }[kind]
    report = inspect_dataset(Pieces(content), "data." + kind)  # type: ignore[arg-type]
    assert (report.format, report.rows, report.usable) == (kind, 20_000, 20_000)
