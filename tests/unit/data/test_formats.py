from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.data.formats import open_records
from trainers.data.source import UnreadableFile


def read(content: bytes, name: str = "data") -> tuple[str, list[tuple[int, Any]], dict[str, Any]]:
    opened = open_records(io.BytesIO(content), name)
    records = [
        (record.line, record.columns if record.fault is None else record.fault.kind) for record in opened.records
    ]
    return opened.format, records, opened.details


@pytest.mark.parametrize(
    ("content", "name", "found"),
    [
        (b'{"a": 1}\n{"a": 2}\n', "x.txt", "jsonl"),
        (b'{"a": 1}\n{"a": 2}\n', "x.json", "jsonl"),
        (b'{"a": 1}', "x.jsonl", "jsonl"),
        (b'{"a"\n{"a": 2}\n', "x", "jsonl"),
        (b'\xef\xbb\xbf[{"a": 1}]', "x.csv", "json"),
        (b'{\n "rows": [\n {"a": 1}\n]}', "x", "json"),
        (b'{"rows": [{"a": 1}]}', "x", "json"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', "x", "jsonl"),
        (b"a,b\n1,2\n", "x", "csv"),
        (b"a\tb\n1\t2\n", "x.tsv", "csv"),
    ],
)
def test_the_format_is_told_by_the_content(content: bytes, name: str, found: str) -> None:
    assert read(content, name)[0] == found


def test_rows_of_a_json_array_carry_their_lines() -> None:
    content = b'[\n {"a": 1},\n\n {"a":\n   2}, {"a": 3},\n 4\n]\n'
    assert read(content)[1] == [(2, {"a": 1}), (4, {"a": 2}), (5, {"a": 3}), (6, "not_object")]


def test_rows_of_an_object_with_one_list_are_read() -> None:
    content = (
        b'{\n"version": 1.5, "tags": ["x"], "none": [], "deep": {"data": [{"a": 0}]},\n'
        b'"rows": [{"a": 1},\n{"a": 2}],\n"end": null}'
    )
    assert read(content)[1] == [(3, {"a": 1}), (4, {"a": 2})]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b'[\n{"a": 1},\n{"a": 2\n', 4, "expecting ',' delimiter"),
        (b'[\n{"a": 1}\n{"a": 2}]', 3, "expecting ','"),
        (b'[{"a": 1}],', 1, "more after the end"),
        (b'[\n{"a": 1},\n]', 3, "expecting value"),
        (b'{"rows": [{"a": 1}], "more": [{"b": 1}]}', 1, "two lists"),
        (b'{\n"version": 1\n}', None, "without a list of rows"),
        (b'[{"a": ' + b"[" * 100_000, 1, "nested too deeply"),
        (b'[{"a": "' + b"x" * (9 << 20) + b'"}]', 1, "longer than 4 MiB"),
    ],
)
def test_a_broken_json_file_names_the_line(content: bytes, line: int | None, words: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read(content, "x.json")
    assert words in caught.value.message and caught.value.line == line and caught.value.advice


def test_rows_before_the_broken_place_are_read() -> None:
    opened = open_records(io.BytesIO(b'[{"a": 1}, {"a": 2}, oops'), "x.json")
    assert next(opened.records).columns == {"a": 1}
    assert next(opened.records).columns == {"a": 2}
    with pytest.raises(UnreadableFile):
        next(opened.records)


def test_rows_of_csv_carry_the_line_on_which_they_begin() -> None:
    content = b'a,b\r\n1,"two\r\nlines"\r\n\r\n3,4\r\n'
    assert read(content)[1] == [(2, {"a": "1", "b": "two\r\nlines"}), (5, {"a": "3", "b": "4"})]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    content = delimiter.join(["question", "answer"]) + "\n" + delimiter.join(['"a, b; c|d"', "2"]) + "\n"
    _, records, details = read(content.encode())
    assert details["delimiter"] == delimiter and records == [(2, {"question": "a, b; c|d", "answer": "2"})]


def test_one_column_of_csv_is_enough() -> None:
    assert read(b"prompt\nhello\nworld\n")[1] == [(2, {"prompt": "hello"}), (3, {"prompt": "world"})]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_the_encoding_is_found(encoding: str) -> None:
    text = "问题,答案\n" + "".join(f"一加{n}等于几？,{n + 1}\n" for n in range(3000))
    _, records, details = read(text.encode(encoding), "表.csv")
    assert len(records) == 3000 and records[-1] == (3001, {"问题": "一加2999等于几？", "答案": "3000"})
    assert details["encoding"] == encoding if encoding != "utf-16" else details["encoding"].startswith("utf-16")


def test_gb18030_is_found_even_when_the_first_kilobytes_are_ascii() -> None:
    text = "prompt,answer\n" + "plain,text\n" * 20_000 + "中文,是\n"
    _, records, details = read(text.encode("gb18030"), "x.csv")
    assert records[-1] == (20_002, {"prompt": "中文", "answer": "是"}) and details["encoding"] == "gb18030"


def test_bad_rows_of_csv_are_named() -> None:
    content = "问,答\n一,1\n二\n三,3,三\n四\0,4\n".encode() + b"\xff,5\n" + "六,6\n".encode()
    assert read(content)[1] == [
        (2, {"问": "一", "答": "1"}),
        (3, "wrong_fields"),
        (4, "wrong_fields"),
        (5, "nul"),
        (6, "not_utf8"),
        (7, {"问": "六", "答": "6"}),
    ]


def test_a_quote_left_open_spoils_its_own_line_only() -> None:
    content = b'a,b\n1,2\n3,"four\n5,6\n7,8\n'
    assert read(content)[1] == [
        (2, {"a": "1", "b": "2"}),
        (3, "open_quote"),
        (4, {"a": "5", "b": "6"}),
        (5, {"a": "7", "b": "8"}),
    ]


def test_a_quote_left_open_in_a_large_file_does_not_swallow_it() -> None:
    content = b'a,b\n1,"two\n' + (b"3," + b"4" * 100 + b"\n") * 60_000
    records = read(content, "x.csv")[1]
    assert records[0] == (2, "open_quote") and len(records) == 60_001


def test_a_quote_inside_a_plain_field_is_a_letter() -> None:
    assert read(b'a,b\n5" pipe,1\n6" pipe,2')[1] == [(2, {"a": '5" pipe', "b": "1"}), (3, {"a": '6" pipe', "b": "2"})]


def test_lines_longer_than_a_row_may_be_are_passed_over() -> None:
    long = b"x" * (5 << 20)
    assert read(b'{"a": 1}\n{"a": "' + long + b'"}\n{"a": 3}')[1] == [(1, {"a": 1}), (2, "too_long"), (3, {"a": 3})]
    assert read(b"a,b\n1,2\n" + long + b",2\n3,4")[1] == [
        (2, {"a": "1", "b": "2"}),
        (3, "too_long"),
        (4, {"a": "3", "b": "4"}),
    ]


def test_nameless_and_doubled_columns_get_numbers() -> None:
    assert read(b"a,,a\n1,2,3\n")[1] == [(2, {"a": "1", "column 2": "2", "a (3)": "3"})]


_VALUES = st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_VALUES, _VALUES), min_size=1, max_size=8))
def test_what_the_csv_writer_writes_is_read_back(rows: list[tuple[str, str]]) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([("prompt", "answer"), *rows])
    found = [columns for _, columns in read(buffer.getvalue().encode(), "x.csv")[1]]
    expected = [{"prompt": a, "answer": b} for a, b in rows if a.strip() or b.strip()]
    assert found == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.dictionaries(_VALUES, st.one_of(_VALUES, st.integers(), st.none()), max_size=3), min_size=1, max_size=8
    ),
    st.sampled_from([None, 0, 2]),
)
def test_what_json_writes_is_read_back_with_the_right_lines(rows: list[dict[str, Any]], indent: int | None) -> None:
    content = json.dumps(rows, indent=indent)
    _, records, _ = read(content.encode(), "x.json")
    assert [columns for _, columns in records] == rows
    lines = content.split("\n")
    assert all(0 < line <= len(lines) and "{" in lines[line - 1] for line, _ in records)
