"""What an inspection of a dataset found: plain values that become JSON for pages, clients and the database."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ReportPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(ReportPart):
    """``line`` counts from 1 in the file as it is; None: the file as a whole. ``error``: the row cannot be used."""

    line: int | None
    column: str | None
    severity: Literal["error", "warning"]
    kind: str
    message: str
    advice: str


class ColumnReport(ReportPart):
    """A column with the types of its values (``text``, ``number`` ...) and how often each occurs."""

    name: str
    part: Literal["prompt", "answer", "messages", "system", "chosen", "rejected", "text", "context"] | None
    reason: str | None = Field(description="Why it plays that part.")
    types: dict[str, int]
    filled: int = Field(description="Rows in which it is neither missing nor empty.")
    examples: list[str]


class Bar(ReportPart):
    """How many lengths lie between two, both included."""

    low: int
    high: int
    count: int


class Lengths(ReportPart):
    """Lengths in characters; the percentiles come from a sample when there are more than 10,000 rows."""

    smallest: int
    mean: float
    median: int
    p95: int
    largest: int
    bars: list[Bar] = []


class AnswerShare(ReportPart):
    """An answer (in lower case, of a worked one its result) and in how many rows it is given."""

    answer: str
    count: int


class TokenRate(ReportPart):
    """What characters make in tokens: ``per_token`` of them one, by the tokenizer of ``model``; None: a rough guess."""

    model: str | None
    per_token: float


class Preview(ReportPart):
    line: int
    messages: list[dict[str, str]]
    answer: str | None
    chosen: list[dict[str, str]] | None = Field(None, description="Of a pair: what the better answer says.")
    rejected: list[dict[str, str]] | None = None
    text: str | None = None
    row: dict[str, Any] = Field(description="The row as it stands in the file, long texts cut.")


class Report(ReportPart):
    """``usable`` of ``rows`` can be trained on; ``problems`` lists, by line, up to 200 errors and 50 warnings.

    Lines are rows in Parquet, which has no lines.
    """

    name: str
    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    rows: int = 0
    usable: int = 0
    bad: int = 0
    with_answer: int = Field(0, description="Usable rows that have an answer.")
    numeric_answers: int = Field(
        0, description="Usable rows whose answer holds a number, as the numeric reward reads it."
    )
    marked_answers: int = Field(0, description="Usable rows whose answer marks its result by #### or \\boxed{}.")
    pairs: int = Field(0, description="Usable rows with a better and a worse answer.")
    texts: int = Field(0, description="Usable rows of plain text.")
    distinct_answers: int | None = Field(None, description="None: too many, or too long, to be counted.")
    answers: list[AnswerShare] = Field([], description="The most frequent answers.")
    tokens: TokenRate | None = None
    columns: list[ColumnReport] = []
    problems: list[Problem] = []
    counts: dict[str, int] = Field({}, description="How many problems there are of each kind, listed or not.")
    lengths: dict[str, Lengths] = {}
    preview: list[Preview] = []
    notes: list[str] = []

    @property
    def ready(self) -> bool:
        """Whether a job could use at least one row."""
        return self.usable > 0
