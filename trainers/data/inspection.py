"""Reads a whole dataset file and says what is in it and what is wrong with it, row by row, before anyone pays."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any, BinaryIO, Literal

from trainers.data.columns import ColumnMap, NoSuchColumn, choose_columns, column_names, listed
from trainers.data.formats import open_records
from trainers.data.loading import first_records
from trainers.data.record import Record, RowFault
from trainers.data.report import ColumnReport, Lengths, Preview, Problem, Report
from trainers.data.rows import DataRow, build_row
from trainers.data.source import UnreadableFile
from trainers.rewards.numeric import marked_answer, number_of
from trainers.spec import Columns

ERRORS_LISTED = 200
WARNINGS_LISTED = 50
PREVIEW_ROWS = 10
_COLUMNS_SHOWN = 200
_PROMPTS_REMEMBERED = 500_000
_SAMPLED = 10_000
_TYPE_NAMES = {str: "text", bool: "true/false", int: "number", float: "number", list: "list", dict: "object"}


def inspect_dataset(file: BinaryIO, name: str, columns: Columns | None = None) -> Report:
    """Read ``file`` once, from its start, and report on it. Never raises for what the file holds.

    ``columns``: the parts that the user has chosen; the others are found by their usual names. When the data has a
    column for answers, a row without one counts as bad.
    """
    inspection = _Inspection(Report(name=name))
    try:
        inspection.read(file, columns)
    except UnreadableFile as error:
        inspection.add(error.line, None, "error", error.kind, error.message, error.advice)
    return inspection.finished()


class _Inspection:
    def __init__(self, report: Report) -> None:
        self.report = report
        self._counts: Counter[str] = Counter()
        self._errors: list[Problem] = []
        self._warnings: list[Problem] = []
        self._columns: dict[str, _Column] = {}
        self._schema: frozenset[str] | None = None
        self._other_schemas: list[tuple[int, frozenset[str]]] = []
        self._seen: dict[bytes, tuple[int, bytes]] = {}
        self._lengths = {"prompt": _Measured(), "answer": _Measured()}
        self._using = ColumnMap()

    def read(self, file: BinaryIO, wanted: Columns | None) -> None:
        opened = open_records(file, self.report.name)
        self.report.format = opened.format
        records = _Remembering(opened.records)
        try:
            first, samples = first_records(records)
        except UnreadableFile:
            self._using = _columns_or_none(records.seen, wanted)
            for record in records.seen:
                self._take(record)
            raise
        finally:
            self.report.encoding = opened.details.get("encoding")
            self.report.delimiter = opened.details.get("delimiter")
        try:
            self._using = choose_columns(samples, wanted) if samples else ColumnMap()
        except NoSuchColumn as error:
            advice = "Choose one of the columns that are there."
            self.add(None, error.column, "error", "no_such_column", str(error), advice)
        if samples and not self._using.usable and not self._errors:
            message = f"No column looks like a prompt. The columns are {listed(column_names(samples))}."
            advice = "Choose which of them holds the question (prompt), and which the reference answer if there is one."
            self.add(None, None, "error", "no_prompt_column", message, advice)
        records.forget()
        for record in chain(first, records):
            self._take(record)
        self.report.encoding = opened.details.get("encoding")

    def add(
        self, line: int | None, column: str | None, severity: Literal["error", "warning"], kind: str, *words: str
    ) -> None:
        self._counts[kind] += 1
        listing, most = (self._errors, ERRORS_LISTED) if severity == "error" else (self._warnings, WARNINGS_LISTED)
        if len(listing) < most:
            message, advice = words
            problem = Problem(line=line, column=column, severity=severity, kind=kind, message=message, advice=advice)
            listing.append(problem)

    def _take(self, record: Record) -> None:
        self.report.rows += 1
        try:
            if record.columns is None:
                raise record.fault or RowFault("broken", "It cannot be read.", "")
            self._note_columns(record.columns)
            if not self._using.usable:
                return
            row = build_row(record.line, record.columns, self._using)
            if self._using.answer is not None and row.answer is None:
                advice = "Fill the answer in, or remove the row."
                raise RowFault("empty_answer", "The answer is empty.", advice, self._using.answer)
        except RowFault as fault:
            self.report.bad += 1
            self.add(record.line, fault.column, "error", fault.kind, fault.message, fault.advice)
        else:
            self._note_row(row)

    def _note_row(self, row: DataRow) -> None:
        report = self.report
        report.usable += 1
        self._lengths["prompt"].add(sum(len(message["content"]) for message in row.prompt_messages))
        if row.answer is not None:
            report.with_answer += 1
            report.numeric_answers += number_of(row.answer) is not None
            report.marked_answers += marked_answer(row.answer) is not None
            self._lengths["answer"].add(len(row.answer))
        if len(report.preview) < PREVIEW_ROWS:
            messages = [{"role": m["role"], "content": _cut(m["content"], 2000)} for m in row.prompt_messages]
            answer = None if row.answer is None else _cut(row.answer, 2000)
            shown = {_cut(name, 200): _shortened(value) for name, value in list(row.row.items())[:_COLUMNS_SHOWN]}
            report.preview.append(Preview(line=row.line, messages=messages, answer=answer, row=shown))
        self._note_schema(row)
        self._note_repeat(row)

    def _note_repeat(self, row: DataRow) -> None:
        prompt, answer = (blake2b(text.encode(), digest_size=8).digest() for text in (row.key, row.answer or ""))
        if prompt not in self._seen:
            if len(self._seen) < _PROMPTS_REMEMBERED:
                self._seen[prompt] = (row.line, answer)
            return
        line, first = self._seen[prompt]
        if first == answer:
            message = f"The same prompt and answer stand in line {line}."
            self.add(row.line, None, "warning", "duplicate", message, "Remove one, unless it is to weigh double.")
        else:
            message = f"The same prompt has another answer in line {line}."
            self.add(row.line, None, "warning", "conflicting_answer", message, "Check which answer is right.")

    def _note_columns(self, columns: Mapping[str, Any]) -> None:
        for name, value in columns.items():
            if name in self._columns or len(self._columns) < 10 * _COLUMNS_SHOWN:
                self._columns.setdefault(name, _Column()).add(value)

    def _note_schema(self, row: DataRow) -> None:
        """Columns and types that differ between usable rows; bad rows are told of one by one already."""
        for name, value in row.row.items():
            if name in self._columns:
                self._columns[name].usable_types[_type_name(value)] += 1
        names = frozenset(row.row)
        if self._schema is None:
            self._schema = names
        elif names != self._schema:
            self._counts["mixed_columns"] += 1
            if not self._other_schemas:
                self._other_schemas.append((row.line, names))

    def finished(self) -> Report:
        report = self.report
        if self._other_schemas:
            self._warn_of_mixed_columns()
        self._warn_of_mixed_types()
        report.columns = [
            column.report(name, self._using.part_of(name), self._using.reasons)
            for name, column in list(self._columns.items())[:_COLUMNS_SHOWN]
        ]
        report.lengths = {part: lengths.summary() for part, lengths in self._lengths.items() if lengths.count}
        report.notes = list(self._notes())
        report.counts = dict(self._counts)
        by_line = sorted([*self._errors, *self._warnings], key=lambda problem: problem.line or 0)
        report.problems = by_line
        return report

    def _warn_of_mixed_columns(self) -> None:
        line, names = self._other_schemas[0]
        count = self._counts.pop("mixed_columns")
        assert self._schema is not None
        more, fewer = sorted(names - self._schema), sorted(self._schema - names)
        told = [f"more: {listed(more)}"] if more else []
        told += [f"fewer: {listed(fewer)}"] if fewer else []
        message = f"{count:,} usable rows have other columns than the first; line {line} has {', '.join(told)}."
        self.add(line, None, "warning", "mixed_columns", message, "This is fine if the other columns are not needed.")
        self._counts["mixed_columns"] = count

    def _warn_of_mixed_types(self) -> None:
        for name, column in list(self._columns.items())[:_COLUMNS_SHOWN]:
            kinds = {kind: count for kind, count in column.usable_types.items() if kind != "null"}
            if len(kinds) > 1:
                told = ", ".join(f"{kind} {count:,}×" for kind, count in kinds.items())
                message = f"Column {_cut(name, 60)!r} holds values of several types: {told}."
                self.add(None, name, "warning", "mixed_types", message, "Write all values of a column the same way.")

    def _notes(self) -> Iterator[str]:
        report = self.report
        if report.encoding == "gb18030":
            yield "The file is encoded in GB18030; it was read as such. UTF-8 is safer."
        if report.usable and report.marked_answers * 2 > report.usable:
            yield (
                "Answers mark their result (#### or \\boxed{}). They are kept whole for imitation; exact and numeric "
                "rewards compare with the result alone."
            )
        if self._using.context is not None:
            yield f"Prompts are made of {self._using.prompt!r} and, where it is filled, {self._using.context!r}."
        if report.usable and report.with_answer == 0:
            yield "No row has an answer: rewards that compare with one, and imitation (SFT), cannot be used."
        if len(self._seen) >= _PROMPTS_REMEMBERED:
            yield f"Repeats were looked for among the first {_PROMPTS_REMEMBERED:,} prompts only."


class _Remembering(Iterator[Record]):
    """Records that can be had again if reading fails before the columns are known."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._keep = True
        self.seen: list[Record] = []

    def __next__(self) -> Record:
        record = next(self._records)
        if self._keep:
            self.seen.append(record)
        return record

    def forget(self) -> None:
        self._keep = False
        self.seen = []


class _Column:
    """What is known of one column so far."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.usable_types: Counter[str] = Counter()
        self.filled = 0
        self.examples: list[str] = []

    def add(self, value: Any) -> None:
        self.types[_type_name(value)] += 1
        if value is None or value == "" or value == []:
            return
        self.filled += 1
        if len(self.examples) < 3:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            text = _cut(" ".join(text.split()), 120)
            if text not in self.examples:
                self.examples.append(text)

    def report(self, name: str, part: Any, reasons: Mapping[str, str]) -> ColumnReport:
        reason = reasons.get(part) if part is not None else None
        return ColumnReport(
            name=_cut(name, 200),
            part=part,
            reason=reason,
            types=dict(self.types),
            filled=self.filled,
            examples=self.examples,
        )


class _Measured:
    """Lengths as they come by: exact bounds and mean, percentiles from a reservoir (Vitter's algorithm R)."""

    def __init__(self) -> None:
        self.count = self._sum = self._largest = 0
        self._smallest = -1
        self._sample: list[int] = []
        self._random = random.Random(0)

    def add(self, length: int) -> None:
        self.count += 1
        self._sum += length
        self._largest = max(self._largest, length)
        self._smallest = length if self._smallest < 0 else min(self._smallest, length)
        if len(self._sample) < _SAMPLED:
            self._sample.append(length)
        elif (place := self._random.randrange(self.count)) < _SAMPLED:
            self._sample[place] = length

    def summary(self) -> Lengths:
        ordered = sorted(self._sample)
        return Lengths(
            smallest=self._smallest,
            mean=round(self._sum / self.count, 1),
            median=ordered[len(ordered) // 2],
            p95=ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
            largest=self._largest,
        )


def _columns_or_none(records: list[Record], wanted: Columns | None) -> ColumnMap:
    """The columns by what was read before the file broke; none if they cannot be told."""
    samples = [record.columns for record in records if record.columns is not None]
    try:
        return choose_columns(samples, wanted)
    except NoSuchColumn:
        return ColumnMap()


def _type_name(value: Any) -> str:
    return "null" if value is None else _TYPE_NAMES.get(type(value), "other")


def _cut(text: str, length: int) -> str:
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.encode("utf-8", "replace").decode()


def _shortened(value: Any, depth: int = 0) -> Any:
    """A value small enough for a page, and free of what JSON in a database cannot hold."""
    if isinstance(value, str):
        return _cut(value, 500).replace("\0", "�")
    if isinstance(value, list | dict) and depth >= 4:
        return "…"
    if isinstance(value, list):
        return [_shortened(item, depth + 1) for item in value[:20]]
    if isinstance(value, dict):
        return {_cut(str(name), 200): _shortened(item, depth + 1) for name, item in list(value.items())[:50]}
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return _cut(str(value), 500)
    return value
