"""Loads the rows of a run, and parts them into those to train on and those to measure by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO

from trainers.data.columns import ColumnMap, NoSuchColumn, choose_columns, column_names, listed
from trainers.data.formats import open_records
from trainers.data.record import Record, RowFault
from trainers.data.rows import DataRow, build_row
from trainers.data.source import UnreadableFile
from trainers.errors import RunError
from trainers.spec import Columns, Data

FIRST_ROWS = 200
_NAMED = 20

RowCheck = Callable[[DataRow], str | None]
"""Says in a sentence why a row does not suit the run, or None."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used: where it begins, which column is to blame (if one is), and why."""

    line: int
    column: str | None
    kind: str
    message: str
    advice: str


@dataclass(slots=True)
class LoadedRows:
    """The usable rows in file order, the others, and how many there were of both."""

    rows: list[DataRow] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    bad_count: int = 0
    columns: ColumnMap = field(default_factory=ColumnMap)

    @property
    def total(self) -> int:
        return len(self.rows) + self.bad_count


def load_rows(
    file: BinaryIO,
    name: str,
    data: Data,
    *,
    need_answer: bool = False,
    for_sft: bool = False,
    for_pairs: bool = False,
    check: RowCheck | None = None,
) -> LoadedRows:
    """Read the rows of a task's dataset.

    ``need_answer``: the reward compares with answers; ``for_sft``: answers or plain texts are imitated (else every
    row must have a prompt); ``for_pairs``: a better answer is told from a worse one; ``check``: a further test of each
    row. More unusable rows than ``data.max_bad_rows`` raise ``RunError("bad_data")`` naming the first of them.
    """
    loaded = LoadedRows()
    try:
        records, loaded.columns = _with_columns(open_records(file, name).records, data.columns)
        needs = _Needs(need_answer, for_sft, for_pairs, check)
        for record in records:
            _take(loaded, record, data, needs)
            if data.limit is not None and len(loaded.rows) >= data.limit:
                break
    except UnreadableFile as error:
        where = f" (line {error.line})" if error.line is not None else ""
        raise RunError(
            "bad_data", f"The dataset {name!r} cannot be read{where}: {error}", error.advice, "data"
        ) from error
    except NoSuchColumn as error:
        advice = "Choose one of the columns that are there."
        raise RunError("bad_data", f"{error}", advice, f"data.columns.{error.part}") from error
    if loaded.bad_count > data.max_bad_rows:
        raise _too_many_bad(loaded, data, name)
    if not loaded.rows:
        raise RunError(
            "bad_data", f"The dataset {name!r} has no row that can be used.", "Upload rows to train on.", "data"
        )
    return loaded


@dataclass(frozen=True, slots=True)
class _Needs:
    answer: bool
    imitated: bool
    pairs: bool
    check: RowCheck | None

    def verify(self, row: DataRow, using: ColumnMap) -> None:
        """Raises :class:`RowFault` for a row that is well formed, but not what this run can use."""
        if self.pairs and row.rejected is None:
            advice = "Use data with a chosen and a rejected answer in each row, or name their columns."
            raise RowFault("no_pair", "It holds no pair of answers.", advice)
        if row.text is not None and not (self.imitated and not self.answer):
            advice = "Plain text can only be imitated (sft); for anything else name the column with the question."
            raise RowFault("no_prompt", "It is plain text without a question.", advice, using.text)
        unsaid = row.text is None and row.messages is None
        if (self.answer and row.answer is None) or (self.imitated and unsaid):
            advice = "Fill the answer in, or choose the column that holds it."
            raise RowFault("empty_answer", "The answer is empty.", advice, using.answer)
        if self.check is not None and (problem := self.check(row)):
            raise RowFault("unfit", problem, "Correct the row, or choose another reward.", using.answer)


def first_records(records: Iterator[Record]) -> tuple[list[Record], list[Mapping[str, Any]]]:
    """Enough records to tell the columns by: a fixed number, and as many more as it takes to find a readable one."""
    first: list[Record] = []
    samples: list[Mapping[str, Any]] = []
    for record in records:
        first.append(record)
        if record.columns is not None:
            samples.append(record.columns)
        if len(first) >= FIRST_ROWS and samples:
            break
    return first, samples


def _with_columns(records: Iterator[Record], wanted: Columns) -> tuple[Iterator[Record], ColumnMap]:
    first, samples = first_records(records)
    if not samples:  # nothing but broken rows, which are told one by one
        return chain(first, records), ColumnMap()
    using = choose_columns(samples, wanted)
    if not using.usable:
        message = f"No column looks like a prompt. The columns are {listed(column_names(samples))}."
        advice = "Choose which of them holds the question, and which the reference answer if there is one."
        raise RunError("bad_data", message, advice, "data.columns.prompt")
    return chain(first, records), using


def _take(loaded: LoadedRows, record: Record, data: Data, needs: _Needs) -> None:
    try:
        if record.columns is None:
            raise record.fault or RowFault("broken", "It cannot be read.", "")
        row = build_row(record.line, record.columns, loaded.columns, data.system_prompt)
        needs.verify(row, loaded.columns)
    except RowFault as fault:
        loaded.bad_count += 1
        if len(loaded.bad) < max(_NAMED, min(data.max_bad_rows, 10_000)):
            loaded.bad.append(BadRow(record.line, fault.column, fault.kind, fault.message, fault.advice))
    else:
        loaded.rows.append(row)


def _too_many_bad(loaded: LoadedRows, data: Data, name: str) -> RunError:
    named = "; ".join(f"line {bad.line}: {bad.message.removesuffix('.')}" for bad in loaded.bad[:_NAMED])
    more = f"; and {loaded.bad_count - _NAMED:,} more" if loaded.bad_count > _NAMED else ""
    allowed = f"{data.max_bad_rows:,}" if data.max_bad_rows else "none"
    message = (
        f"{loaded.bad_count:,} of {loaded.total:,} rows of {name!r} cannot be used, and {allowed} may be left out. "
        f"{named[:1].upper()}{named[1:]}{more}."
    )
    advice = f"Correct these rows, or set `max_bad_rows` to {loaded.bad_count} to leave them out."
    return RunError("bad_data", message, advice, "data.max_bad_rows")


def split_rows(rows: Sequence[DataRow], eval_prompts: int, seed: int) -> tuple[list[DataRow], list[DataRow]]:
    """Rows to train on, and one row for each of up to ``eval_prompts`` held-out prompts.

    A prompt is never in both, however it is spaced, capitalised or repeated. The choice depends on the seed and the
    prompts alone, not on the order of the file. At most half of the prompts are held out; the second list is shorter
    than asked for when the data is small. Raises ``RunError("bad_data")`` when there is nothing to hold out.
    """
    if eval_prompts == 0:
        return list(rows), []
    groups: dict[str, list[DataRow]] = {}
    for row in rows:
        groups.setdefault(row.fingerprint(), []).append(row)
    if len(groups) < 2:
        message = (
            f"The data holds {len(groups)} different prompt{'' if len(groups) == 1 else 's'}: none can be held out."
        )
        advice = "Add rows with other prompts, or set `evaluation.prompts` to 0."
        raise RunError("bad_data", message, advice, "evaluation.prompts")
    order = sorted(groups, key=lambda key: hashlib.sha256(f"{seed}:{key}".encode()).digest())
    held_out = set(order[: min(eval_prompts, len(groups) // 2)])
    train = [row for row in rows if row.fingerprint() not in held_out]
    return train, [groups[key][0] for key in order if key in held_out]


def without_overlap(train: Sequence[DataRow], held_out: Sequence[DataRow]) -> list[DataRow]:
    """The rows whose prompts are not in a dataset made for evaluation. Raises ``RunError`` when none is left."""
    known = {row.fingerprint() for row in held_out}
    kept = [row for row in train if row.fingerprint() not in known]
    if train and not kept:
        message = "Every prompt of the training data is also in the evaluation data."
        raise RunError("bad_data", message, "Choose another dataset for evaluation.", "evaluation.source")
    return kept
