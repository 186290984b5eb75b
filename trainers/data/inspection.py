"""Reads a whole dataset file and says what is in it and what is wrong with it, row by row, before anyone pays."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, BinaryIO, Literal

from trainers.data.columns import ColumnMap, NoSuchColumn, choose_columns, column_names, listed
from trainers.data.figures import Answers, Measured, Scripts
from trainers.data.formats import open_records
from trainers.data.loading import first_records
from trainers.data.preview import COLUMNS_SHOWN, cut, preview_of
from trainers.data.record import Record, RowFault
from trainers.data.repeats import REMEMBERED, Repeats
from trainers.data.report import ColumnReport, Problem, Report, TokenRate
from trainers.data.rows import DataRow, build_row
from trainers.data.source import UnreadableFile
from trainers.rewards.numeric import marked_answer, number_of
from trainers.spec import Columns, Hyperparameters

ERRORS_LISTED = 200
WARNINGS_LISTED = 50
PREVIEW_ROWS = 10
CHARACTERS_PER_TOKEN = 4
_TOKENS_COUNTED = 20_000
_CHARACTERS_COUNTED = 20_000_000  # some seconds of a tokenizer's time
_LONGEST_PROMPT = Hyperparameters.model_fields["max_prompt_tokens"].default
_REPEATED = {
    "duplicate": ("The same prompt and answer stand in {place}.", "Remove one, unless it is to weigh double."),
    "near_duplicate": (
        "Nearly the same prompt, with the same answer, stands in {place}.",
        "Remove one, unless it is to weigh double.",
    ),
    "conflicting_answer": ("The same prompt has another answer in {place}.", "Check which answer is right."),
}
_TYPE_NAMES = {str: "text", bool: "true/false", int: "number", float: "number", list: "list", dict: "object"}


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of a text as the model called ``model`` reads it."""

    model: str
    count: Callable[[str], int]


def inspect_dataset(
    file: BinaryIO, name: str, columns: Columns | None = None, counter: TokenCounter | None = None
) -> Report:
    """Read ``file`` once, from its start, and report on it. Never raises for what the file holds.

    ``columns``: the parts that the user has chosen; the others are found by their usual names. When the data has a
    column for answers, a row without one counts as bad. Without ``counter`` tokens are guessed by characters.
    """
    inspection = _Inspection(Report(name=name), counter)
    try:
        inspection.read(file, columns)
    except UnreadableFile as error:
        inspection.add(error.line, None, "error", error.kind, error.message, error.advice)
    return inspection.finished()


@dataclass(slots=True)
class _Count:
    """Counts of the report, under its own names: a model's fields are slow to count by."""

    rows: int = 0
    usable: int = 0
    bad: int = 0
    with_answer: int = 0
    numeric_answers: int = 0
    marked_answers: int = 0
    pairs: int = 0
    texts: int = 0


class _Inspection:
    def __init__(self, report: Report, counter: TokenCounter | None) -> None:
        self.report = report
        self._count = _Count()
        self._counts: Counter[str] = Counter()
        self._errors: list[Problem] = []
        self._warnings: list[Problem] = []
        self._columns: dict[str, _Column] = {}
        self._schema: frozenset[str] | None = None
        self._other_schemas: list[tuple[int, frozenset[str]]] = []
        self._repeats, self._answers, self._scripts = Repeats(), Answers(), Scripts()
        self._lengths = {part: Measured() for part in ("prompt", "answer", "chosen", "rejected", "text")}
        self._counter = counter
        self._counted = [0, 0]  # characters and tokens of the first texts
        self._place = "line"
        self._using = ColumnMap()

    def read(self, file: BinaryIO, wanted: Columns | None) -> None:
        opened = open_records(file, self.report.name)
        self.report.format = opened.format
        self._place = "row" if opened.format == "parquet" else "line"
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
        if len(listing) < most or line is None:  # what is wrong with the whole must not be lost among the rows
            message, advice = words
            problem = Problem(line=line, column=column, severity=severity, kind=kind, message=message, advice=advice)
            listing.append(problem)

    def _take(self, record: Record) -> None:
        self._count.rows += 1
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
            self._count.bad += 1
            self.add(record.line, fault.column, "error", fault.kind, fault.message, fault.advice)
        else:
            self._note_row(row)

    def _note_row(self, row: DataRow) -> None:
        report, count = self.report, self._count
        count.usable += 1
        said = "\n".join(message["content"] for message in row.prompt_messages)
        if row.text is not None:
            count.texts += 1
            self._lengths["text"].add(len(row.text))
        else:
            self._lengths["prompt"].add(len(said))
            self._note_tokens(row, said)
        self._scripts.add(row.text or said)
        if (sides := row.sides) is not None:
            count.pairs += 1
            for part, chat in zip(("chosen", "rejected"), sides, strict=True):
                self._lengths[part].add(sum(len(turn["content"]) for turn in chat))
        if row.answer is not None:
            count.with_answer += 1
            count.numeric_answers += number_of(row.answer) is not None
            count.marked_answers += marked_answer(row.answer) is not None
            if row.chosen is None:
                self._lengths["answer"].add(len(row.answer))
                self._answers.add(row.answer)
        if len(report.preview) < PREVIEW_ROWS:
            report.preview.append(preview_of(row))
        self._note_schema(row)
        self._note_repeat(row)

    def _note_tokens(self, row: DataRow, said: str) -> None:
        """Warn of prompts longer than a job takes by default."""
        guessed = self._tokens_of(said)
        if guessed > _LONGEST_PROMPT:
            message = (
                f"The prompt has about {guessed:,} tokens. By default a job leaves out prompts of more than "
                f"{_LONGEST_PROMPT:,} (`max_prompt_tokens`)."
            )
            self.add(row.line, None, "warning", "long_prompt", message, "Raise that limit in the job, or shorten it.")

    def _tokens_of(self, said: str) -> int:
        """Tokens of a prompt: counted for the first texts and those that may be too long, as long as time allows; of
        others by what the counted ones had for each character."""
        if self._counter is None:
            return len(said) // CHARACTERS_PER_TOKEN
        near = len(said.encode()) > _LONGEST_PROMPT and self._counted[0] < _CHARACTERS_COUNTED
        if near or self._counted[1] < _TOKENS_COUNTED:
            tokens = self._counter.count(said)
            self._counted[0] += len(said)
            self._counted[1] += tokens
            return tokens
        return len(said) * self._counted[1] // max(1, self._counted[0])

    def _note_repeat(self, row: DataRow) -> None:
        found = self._repeats.add(row)
        if found is None:
            return
        kind, line = found
        message, advice = _REPEATED[kind]
        self.add(row.line, None, "warning", kind, message.format(place=f"{self._place} {line:,}"), advice)

    def _note_columns(self, columns: Mapping[str, Any]) -> None:
        for name, value in columns.items():
            if name in self._columns or len(self._columns) < 10 * COLUMNS_SHOWN:
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
        for field in fields(_Count):
            setattr(report, field.name, getattr(self._count, field.name))
        if self._other_schemas:
            self._warn_of_mixed_columns()
        self._warn_of_mixed_types()
        report.columns = [
            column.report(name, self._using.part_of(name), self._using.reasons)
            for name, column in list(self._columns.items())[:COLUMNS_SHOWN]
        ]
        if (warning := self._answers.imbalance()) is not None:
            advice = "Balance the answers, or watch whether the model learns to say this one only."
            self.add(None, self._using.answer, "warning", "label_imbalance", warning, advice)
        report.answers, report.distinct_answers = self._answers.shares(), self._answers.distinct
        report.tokens = self._token_rate()
        report.lengths = {part: lengths.summary() for part, lengths in self._lengths.items() if lengths.count}
        report.notes = list(self._notes())
        report.counts = dict(self._counts)
        by_line = sorted([*self._errors, *self._warnings], key=lambda problem: problem.line or 0)
        report.problems = by_line
        return report

    def _token_rate(self) -> TokenRate | None:
        if not self.report.usable:
            return None
        if self._counter is not None and self._counted[1]:
            return TokenRate(model=self._counter.model, per_token=round(self._counted[0] / self._counted[1], 2))
        return TokenRate(model=None, per_token=float(CHARACTERS_PER_TOKEN))

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
        for name, column in list(self._columns.items())[:COLUMNS_SHOWN]:
            kinds = {kind: count for kind, count in column.usable_types.items() if kind != "null"}
            if len(kinds) > 1:
                told = ", ".join(f"{kind} {count:,}×" for kind, count in kinds.items())
                message = f"Column {cut(name, 60)!r} holds values of several types: {told}."
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
        if report.texts:
            yield "The rows are plain text: they can be imitated (SFT), but no question can be put to the model."
        elif report.usable and report.with_answer == 0:
            yield "No row has an answer: rewards that compare with one, and imitation (SFT), cannot be used."
        if report.pairs:
            yield "Each row holds a better and a worse answer: use the recipe dpo, or imitate the better one (SFT)."
        if (note := self._scripts.note()) is not None:
            yield note
        if self._repeats.full:
            yield f"Repeats were looked for among the first {REMEMBERED:,} prompts only."


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
            text = cut(" ".join(text.split()), 120)
            if text not in self.examples:
                self.examples.append(text)

    def report(self, name: str, part: Any, reasons: Mapping[str, str]) -> ColumnReport:
        reason = reasons.get(part) if part is not None else None
        return ColumnReport(
            name=cut(name, 200),
            part=part,
            reason=reason,
            types=dict(self.types),
            filled=self.filled,
            examples=self.examples,
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
