"""Parquet, gzip and plain text, and the odd things that files hold."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainers.data import unpacking
from trainers.data.formats import open_records
from trainers.data.inspection import inspect_dataset
from trainers.data.leakage import DataFile, overlap
from trainers.data.report import Report
from trainers.data.source import UnreadableFile


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def read(content: bytes, name: str = "data.parquet") -> list[tuple[int, Any]]:
    records = open_records(io.BytesIO(content), name).records
    return [(record.line, record.columns or (record.fault and record.fault.kind)) for record in records]


def inspect(content: bytes, name: str) -> Report:
    report = inspect_dataset(io.BytesIO(content), name)
    assert Report.model_validate_json(report.model_dump_json()) == report
    return report


def whole_fault(content: bytes, name: str = "data.jsonl") -> str:
    report = inspect(content, name)
    [problem] = [problem for problem in report.problems if problem.severity == "error"]
    assert problem.advice
    return problem.message


def test_parquet_is_read_by_row_groups_and_rows_are_counted_through() -> None:
    table = pa.table({"question": [f"q{n}" for n in range(1000)], "answer": list(range(1000))})
    rows = read(parquet(table, row_group_size=300), "named_wrongly.csv")
    assert len(rows) == 1000 and rows[0] == (1, {"question": "q0", "answer": 0}) and rows[-1][0] == 1000
    report = inspect(parquet(table), "d.parquet")
    assert (report.format, report.rows, report.usable, report.encoding) == ("parquet", 1000, 1000, None)


def test_nested_and_odd_types_of_parquet_come_as_json_knows_them() -> None:
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    table = pa.table(
        {
            "messages": pa.array([chat]),
            "when": [datetime.datetime(2026, 1, 2, 3, 4, 5)],
            "price": [Decimal("1.50")],
            "raw": [b"text"],
            "picture": [b"\xff\xd8"],
            "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "nothing": pa.array([None]),
        }
    )
    [(line, row)] = read(parquet(table))
    assert line == 1 and row["messages"] == chat and row["nothing"] is None
    assert row["when"] == "2026-01-02T03:04:05" and row["price"] == "1.50" and row["raw"] == "text"
    assert row["tags"] == {"a": 1} and row["picture"] == b"\xff\xd8"
    report = inspect(parquet(table), "d.parquet")
    assert report.usable == 1 and report.preview[0].row["picture"] == "2 bytes"


def test_a_row_of_parquet_that_cannot_be_used_is_named_by_its_number() -> None:
    table = pa.table({"question": ["a", None, "c"], "answer": ["1", "2", "3"]})
    report = inspect(parquet(table), "d.parquet")
    assert [(problem.line, problem.kind) for problem in report.problems] == [(2, "empty_prompt")]
    table = pa.table({"question": ["a", "A"], "answer": ["1", "1"]})
    assert "in row 1" in inspect(parquet(table), "d.parquet").problems[0].message


def test_broken_parquet_is_refused_in_words() -> None:
    content = parquet(pa.table({"question": [f"question {n} {random.random()}" for n in range(5000)]}))
    assert "cannot be read" in whole_fault(content[: len(content) // 2])
    assert "cannot be read" in whole_fault(b"PAR1" + bytes(100) + b"PAR1")
    damaged = bytearray(content)
    damaged[100:2000] = random.Random(0).randbytes(1900)
    report = inspect(bytes(damaged), "d.parquet")
    assert report.rows < 5000 and any(problem.severity == "error" for problem in report.problems)
    doubled = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])
    assert "Two columns" in whole_fault(parquet(doubled))


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_to_a_parquet_file_breaks_the_check(seed: int) -> None:
    chance = random.Random(seed)
    table = pa.table({"question": [f"q{n}" for n in range(200)], "answer": [str(n % 7) for n in range(200)]})
    content = bytearray(parquet(table, compression=chance.choice(["none", "snappy", "zstd", "gzip"])))
    for _ in range(chance.randrange(1, 20)):
        content[chance.randrange(4, len(content))] = chance.randrange(256)
    inspect(bytes(content), "d.parquet")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.gz"])
def test_gzip_is_unpacked_while_it_is_read(name: str) -> None:
    rows = [{"question": f"q{n}", "answer": n} for n in range(20_000)]
    content = gzip.compress("\n".join(json.dumps(row) for row in rows).encode())
    assert read(content, name) == list(enumerate(rows, start=1))
    report = inspect(content, name)
    assert (report.format, report.usable) == ("jsonl", 20_000)
    assert inspect(gzip.compress(b"q;a\n1;2\n"), "t.csv.gz").delimiter == ";"
    assert read(gzip.compress(b'{"a": 1}\n') + gzip.compress(b'{"a": 2}\n'), name) == [(1, {"a": 1}), (2, {"a": 2})]


def test_gzip_that_is_damaged_cut_off_or_packed_twice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress("\n".join(json.dumps({"question": str(random.random())}) for _ in range(20_000)).encode())
    assert "cut off" in whole_fault(whole[:-20])
    damaged = bytearray(whole)
    damaged[-8] ^= 1  # its checksum
    assert "damaged" in whole_fault(bytes(damaged))
    assert "twice" in whole_fault(gzip.compress(whole))
    assert "Parquet" in whole_fault(gzip.compress(parquet(pa.table({"a": ["b"]}))))
    monkeypatch.setattr(unpacking, "SURELY_FINE_BYTES", 1 << 20)
    bomb = gzip.compress(b'{"question": "' + b"a" * (64 << 20) + b'"}')
    assert "200 times its size" in whole_fault(bomb)


def test_a_stream_that_cannot_go_back_is_read_too() -> None:
    class Stream(io.RawIOBase):
        def __init__(self, content: bytes) -> None:
            super().__init__()
            self._inner = io.BytesIO(content)

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return self._inner.read(min(size, 7) if size > 0 else size)

    for content in (b'{"a": 1}\n', gzip.compress(b'{"a": 1}\n')):
        records = open_records(Stream(content), "x.jsonl").records  # type: ignore[arg-type]
        assert [record.columns for record in records] == [{"a": 1}]
    with pytest.raises(UnreadableFile, match="Parquet"):
        list(open_records(Stream(parquet(pa.table({"a": ["b"]}))), "x").records)  # type: ignore[arg-type]


def test_a_text_file_has_a_row_for_every_paragraph_or_line() -> None:
    paragraphs = b"One line,\nand another.\n\n\nA second paragraph.\n   \nThird\n"
    assert read(paragraphs, "book.txt") == [
        (1, {"text": "One line,\nand another."}),
        (5, {"text": "A second paragraph."}),
        (7, {"text": "Third"}),
    ]
    assert read(b"first, one\r\nsecond\r\n", "lines.md") == [(1, {"text": "first, one"}), (2, {"text": "second"})]
    assert read(b"question\tanswer\n1+1\t2\n", "table.txt") == [(2, {"question": "1+1", "answer": "2"})]
    assert read(b"ok\n\n\xff\n\nfine", "x.txt") == [(1, {"text": "ok"}), (3, "not_utf8"), (5, {"text": "fine"})]
    long = b"a\n\n" + b"b" * (5 << 20) + b"\n\nc\n"
    assert read(long, "x.txt") == [(1, {"text": "a"}), (3, "too_long"), (5, {"text": "c"})]
    report = inspect(paragraphs, "book.txt")
    assert (report.format, report.texts, report.usable) == ("text", 3, 3) and report.lengths["text"].smallest == 5


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("a,b\n1,2\n".encode("utf-32"), "x.csv", "UTF-32"),
        ("question,answer\n1,2\n".encode("utf-16-le"), "x.csv", "looks like UTF-16"),
        (b"BZh91AY", "x.jsonl", "bzip2"),
        (b"PARE" + bytes(50), "x.parquet", "encrypted"),
        (b"PK\x03\x04" + bytes(50), "x.xlsx", "Excel"),
    ],
)
def test_files_of_other_kinds_are_named(content: bytes, name: str, words: str) -> None:
    assert words in whole_fault(content, name)


def test_a_name_that_stands_twice_spoils_its_row() -> None:
    doubled = b'{"question": "a", "question": "b"}'
    nested = b'{"question": "a", "meta": {"x": 1, "x": 2}}'
    good = b'{"question": "c"}'
    report = inspect(b"\n".join([doubled, good, nested]), "x.jsonl")
    assert [(p.line, p.kind) for p in report.problems if p.severity == "error"] == [
        (1, "doubled_name"),
        (3, "doubled_name"),
    ]
    assert "'question' stands twice" in report.problems[0].message
    report = inspect(b"[" + b",\n".join([good, doubled, good]) + b"]", "x.json")
    assert report.usable == 2 and [p.line for p in report.problems if p.severity == "error"] == [2]


@pytest.mark.parametrize("answer", [b"1e999", b"-Infinity", b"NaN", b"9" * 4000])
def test_answers_that_are_no_finite_numbers_are_named(answer: bytes) -> None:
    report = inspect(b'{"question": "a", "answer": ' + answer + b'}\n{"question": "b", "answer": 2}\n', "x.jsonl")
    wrong = [problem for problem in report.problems if problem.severity == "error"]
    assert len(answer) == 4000 or ([p.line for p in wrong] == [1] and "finite" in wrong[0].message)
    assert report.usable >= 1


def test_prompts_that_two_files_share_are_found_however_they_are_written() -> None:
    train = b"".join(json.dumps({"question": f"What is {n} + 1?"}).encode() + b"\n" for n in range(100)) + b"broken\n"
    held_out = "prompt,answer\nwhat  is 7 + 1?,8\nＷhat is 9 + 1?,10\nnew,1\nnew,1\n".encode()
    found = overlap(DataFile(io.BytesIO(train), "t.jsonl"), DataFile(io.BytesIO(held_out), "e.csv"))
    assert (found.rows, found.others, found.shared) == (100, 3, 2)
    assert [(one.line, one.other_line, one.prompt) for one in found.examples] == [
        (8, 2, "What is 7 + 1?"),
        (10, 3, "What is 9 + 1?"),
    ]
    nothing = overlap(DataFile(io.BytesIO(b"%PDF"), "x"), DataFile(io.BytesIO(held_out), "e.csv"))
    assert (nothing.rows, nothing.shared) == (0, 0)


def test_rows_on_lines_of_their_own_inside_an_object_are_json() -> None:
    content = b'{"data": [\n{"question": "a"},\n{"question": "b"}\n]}\n'
    for name in ("d.json", "d.txt"):
        assert read(content, name) == [(2, {"question": "a"}), (3, {"question": "b"})]
    broken_first = b'{"question": [\n{"question": "b"}\n{"question": "c"}\n'
    assert read(broken_first, "d.jsonl") == [(1, "broken_json"), (2, {"question": "b"}), (3, {"question": "c"})]
