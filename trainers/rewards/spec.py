"""How a reward is described: a weighted sum of components, each a small, named check of one completion.

A later kind of component is a new class here and a new scorer beside it; nothing else changes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from trainers.rewards.checks import checked_code, checked_endpoint, checked_pattern, checked_schema, checked_template

Unit = Literal["characters", "tokens"]
Regex = Annotated[str, Field(max_length=500), AfterValidator(checked_pattern)]
BatchSeconds = Annotated[
    float, Field(gt=0, le=300, description="Seconds for a whole batch; then the batch is an error.")
]


class Component(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(None, min_length=1, max_length=60, description="Its name on charts. Empty: its kind.")
    weight: float = Field(1.0, ge=-1000, le=1000, description="Factor in the sum; negative for a penalty.")
    at_least: float | None = Field(
        None, ge=-1e6, le=1e6, description="Gate: where its value is below this, the whole reward is `otherwise`."
    )
    otherwise: float = Field(0.0, ge=-1e6, le=1e6, description="The reward of a completion that the gate stops.")


class Exact(Component):
    """1 when the completion (or what ``extract`` finds in it) equals the answer, else 0."""

    kind: Literal["exact"] = "exact"
    ignore_case: bool = False
    extract: Regex | None = Field(
        None, description="Regular expression; its last match (group 1 if it has one) is compared."
    )


class Numeric(Component):
    """1 when a number of the completion is within ``tolerance`` of the answer, else 0."""

    kind: Literal["numeric"] = "numeric"
    which: Literal["first", "last"] = Field("last", description="Which number of the completion counts.")
    tolerance: float = Field(1e-6, ge=0, le=1e12, description="Largest absolute difference that is still right.")


class Math(Component):
    """1 when the completion's result is mathematically the same as the answer, else 0 (math-verify)."""

    kind: Literal["math"] = "math"
    timeout_s: float = Field(
        5.0, gt=0, le=60, description="Seconds for one completion; one that takes longer counts as wrong."
    )


class Pattern(Component):
    """1 when the regular expression is found in the completion (``whole``: matches all of it), else 0."""

    kind: Literal["pattern"] = "pattern"
    pattern: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(checked_pattern)]
    whole: bool = False
    timeout_s: BatchSeconds = 10.0


class Schema(Component):
    """1 when the completion is JSON that fits a JSON Schema, else 0; ``partial`` for JSON that does not fit."""

    kind: Literal["json_schema"] = "json_schema"
    definition: dict[str, Any] | None = Field(None, description="The schema. Empty: a column of the row holds it.")
    column: str | None = Field(None, min_length=1, max_length=200, description="Column with a schema for each row.")
    partial: float = Field(0.0, ge=0, le=1, description="Value of valid JSON that does not fit the schema.")
    strict: bool = Field(
        False, description="The whole completion must be JSON. Otherwise a code block or the first object counts too."
    )
    timeout_s: BatchSeconds = 10.0

    @field_validator("definition")
    @classmethod
    def _is_schema(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return checked_schema(value) if value is not None else None

    @model_validator(mode="after")
    def _has_schema(self) -> Schema:
        if (self.definition is None) == (self.column is None):
            raise ValueError("give either a schema (definition) or the column that holds one (column)")
        return self


class Similarity(Component):
    """From 0 to 1: how alike the completion and the answer are, letter by letter (rapidfuzz)."""

    kind: Literal["similarity"] = "similarity"
    method: Literal["ratio", "token_sort", "partial", "levenshtein"] = Field(
        "ratio",
        description="ratio: insertions and deletions; token_sort: the same, words in any order; partial: the best part "
        "of the longer text; levenshtein: replacements count once.",
    )
    ignore_case: bool = False
    timeout_s: BatchSeconds = 10.0


class Code(Component):
    """The share of a row's tests that the completion's program passes (``every``: 1 only for all of them)."""

    kind: Literal["code"] = "code"
    tests: str = Field("tests", min_length=1, max_length=200, description="Column with the tests of each row.")
    entry_point: str | None = Field(
        None, min_length=1, max_length=200, description="Column with the function's name, for tests with `check`."
    )
    every: bool = Field(False, description="1 when all tests pass, else 0, instead of the share.")
    timeout_s: float = Field(5.0, gt=0, le=120, description="Seconds for one test; one that takes longer has failed.")


class Tags(Component):
    """1 when the completion consists of these tags in this order, each once, with something in it; else 0."""

    kind: Literal["tags"] = "tags"
    tags: tuple[str, ...] = Field(("think", "answer"), min_length=1, max_length=10, description="Names, in order.")
    outside: bool = Field(False, description="Text may stand outside of the tags.")
    partial: bool = Field(False, description="The share of conditions that hold, instead of all or nothing.")

    @field_validator("tags")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for tag in value:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,59}", tag):
                raise ValueError(f"{tag!r} is no name of a tag; write think for <think>…</think>")
        if len(set(value)) < len(value):
            raise ValueError("a tag is named twice")
        return value


class Length(Component):
    """1 inside the range; outside it falls linearly, to 0 at no length and at twice the maximum."""

    kind: Literal["length"] = "length"
    minimum: int = Field(0, ge=0, le=1_000_000)
    maximum: int = Field(ge=1, le=1_000_000)
    unit: Unit = "characters"

    @model_validator(mode="after")
    def _ordered(self) -> Length:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum ({self.minimum}) is larger than maximum ({self.maximum})")
        return self


class LengthTarget(Component):
    """1 at the target length, falling linearly to 0 at ``width`` below and above it."""

    kind: Literal["length_target"] = "length_target"
    target: int = Field(ge=1, le=1_000_000)
    width: int = Field(ge=1, le=1_000_000, description="Distance at which the value reaches 0.")
    unit: Unit = "tokens"


class Overlong(Component):
    """1 up to ``limit - buffer``, then falling linearly to 0 at ``limit`` (DAPO, arXiv:2503.14476, eq. 13, plus 1)."""

    kind: Literal["overlong"] = "overlong"
    limit: int = Field(ge=1, le=1_000_000)
    buffer: int = Field(ge=1, le=1_000_000, description="Over how much before the limit the value falls.")
    unit: Unit = "tokens"

    @model_validator(mode="after")
    def _ordered(self) -> Overlong:
        if self.buffer > self.limit:
            raise ValueError(f"buffer ({self.buffer}) is larger than limit ({self.limit})")
        return self


class Repetition(Component):
    """1 when no run of ``size`` words comes twice; else the share of runs that are different."""

    kind: Literal["repetition"] = "repetition"
    size: int = Field(4, ge=1, le=50, description="Words (or characters) in a run.")
    unit: Literal["words", "characters"] = Field("words", description="characters: for Chinese, Japanese and the like.")


class Judge(Component):
    """From 0 to 1: the score that another model gives, asked over an OpenAI-compatible endpoint."""

    kind: Literal["judge"] = "judge"
    endpoint: str = Field(max_length=1000, description="Base URL, such as https://api.example.com/v1.")
    model: str = Field(min_length=1, max_length=200, description="Name of the judging model at the endpoint.")
    secret: str | None = Field(
        None, min_length=1, max_length=100, description="Name of the workspace's secret that holds the API key."
    )
    prompt: str = Field(
        max_length=20_000,
        description="What the judge is asked; {prompt}, {completion}, {answer} and {row.NAME} stand for the row's.",
    )
    system: str | None = Field(None, max_length=20_000, description="System prompt of the judge.")
    read: Literal["last_number", "pattern", "json"] = Field(
        "last_number",
        description="How the score is read: the last number of the reply, group 1 of a pattern, or `score` of JSON.",
    )
    pattern: Regex | None = Field(None, description="For read = pattern.")
    lowest: float = Field(0.0, ge=-1e6, le=1e6, description="Score that means 0.")
    highest: float = Field(10.0, ge=-1e6, le=1e6, description="Score that means 1.")
    unreadable: float | None = Field(
        None, ge=0, le=1, description="Value where the reply holds no score in this range. Empty: that is an error."
    )
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(512, ge=1, le=32_768, description="Longest reply.")
    timeout_s: float = Field(60.0, gt=0, le=600, description="Seconds for one request.")
    retries: int = Field(4, ge=0, le=10, description="How often a request that failed in passing is sent again.")
    concurrency: int = Field(8, ge=1, le=64, description="Requests under way at once.")
    max_calls: int | None = Field(None, ge=1, le=100_000_000, description="Budget of a run in requests.")
    max_cost: float | None = Field(None, gt=0, le=1e9, description="Budget of a run in money, by the two prices.")
    input_price: float = Field(0.0, ge=0, le=1e6, description="Price of a million tokens read.")
    output_price: float = Field(0.0, ge=0, le=1e6, description="Price of a million tokens written.")

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return checked_endpoint(value)

    @field_validator("prompt")
    @classmethod
    def _names_completion(cls, value: str) -> str:
        return checked_template(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Judge:
        if self.read == "pattern" and self.pattern is None:
            raise ValueError("read = pattern needs a pattern")
        if self.lowest >= self.highest:
            raise ValueError(f"lowest ({self.lowest:g}) must be below highest ({self.highest:g})")
        if self.max_cost is not None and not (self.input_price or self.output_price):
            raise ValueError("a budget in money needs the prices of the tokens")
        return self


class Python(Component):
    """A function of the user's own, run in the sandbox: ``def reward(prompt, completion, answer, row) -> float``."""

    kind: Literal["python"] = "python"
    code: str = Field(min_length=1, max_length=100_000)
    timeout_s: BatchSeconds = 10.0

    @field_validator("code")
    @classmethod
    def _parses(cls, value: str) -> str:
        return checked_code(value)


AnyComponent = Annotated[
    Exact
    | Numeric
    | Math
    | Pattern
    | Schema
    | Similarity
    | Code
    | Tags
    | Length
    | LengthTarget
    | Overlong
    | Repetition
    | Judge
    | Python,
    Field(discriminator="kind"),
]
COMPONENT_CLASSES: dict[str, type[Component]] = {
    cls.model_fields["kind"].default: cls for cls in get_args(get_args(AnyComponent)[0])
}
COMPONENT_KINDS = frozenset(COMPONENT_CLASSES)


class RewardSpec(BaseModel):
    """reward = Σ weight · value of each component. A completion whose first component gives 1 counts as accurate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    components: tuple[AnyComponent, ...] = Field(max_length=20)

    @model_validator(mode="after")
    def _names_differ(self) -> RewardSpec:
        names = self.names
        if not names:
            raise ValueError("a reward needs at least one component")
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ValueError(f"two components are called {name!r}; give one of them another name")
        return self

    @property
    def names(self) -> list[str]:
        return [component.name or component.kind for component in self.components]

    @property
    def secrets(self) -> list[str]:
        """Names of the workspace's secrets that scoring needs."""
        found = [part.secret for part in self.components if isinstance(part, Judge) and part.secret is not None]
        return list(dict.fromkeys(found))
