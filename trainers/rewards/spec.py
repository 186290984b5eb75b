"""How a reward is described: a weighted sum of components, each a small, named check of one completion.

A later kind of component is a new class here and a new scorer beside it; nothing else changes.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class Component(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(None, min_length=1, max_length=60, description="Its name on charts. Empty: its kind.")
    weight: float = Field(1.0, ge=-1000, le=1000, description="Factor in the sum; negative for a penalty.")


class Exact(Component):
    """1 when the completion (or what ``extract`` finds in it) equals the answer, else 0."""

    kind: Literal["exact"] = "exact"
    ignore_case: bool = False
    extract: str | None = Field(
        None, max_length=500, description="Regular expression; its last match (group 1 if it has one) is compared."
    )

    @field_validator("extract")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return _checked_pattern(value)


class Numeric(Component):
    """1 when a number of the completion is within ``tolerance`` of the answer, else 0."""

    kind: Literal["numeric"] = "numeric"
    which: Literal["first", "last"] = Field("last", description="Which number of the completion counts.")
    tolerance: float = Field(1e-6, ge=0, le=1e12, description="Largest absolute difference that is still right.")


class Pattern(Component):
    """1 when the regular expression is found in the completion (``whole``: matches all of it), else 0."""

    kind: Literal["pattern"] = "pattern"
    pattern: str = Field(min_length=1, max_length=500)
    whole: bool = False

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return _checked_pattern(value) or value


class Length(Component):
    """1 inside the range of characters; outside it falls linearly, to 0 at no character and at twice the maximum."""

    kind: Literal["length"] = "length"
    minimum: int = Field(0, ge=0, le=1_000_000)
    maximum: int = Field(ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _ordered(self) -> Length:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum ({self.minimum}) is larger than maximum ({self.maximum})")
        return self


class Python(Component):
    """A function of the user's own, run in the sandbox: ``def reward(prompt, completion, answer, row) -> float``."""

    kind: Literal["python"] = "python"
    code: str = Field(min_length=1, max_length=100_000)
    timeout_s: float = Field(10.0, gt=0, le=300, description="Seconds for a whole batch; then the batch is an error.")

    @field_validator("code")
    @classmethod
    def _parses(cls, value: str) -> str:
        try:
            tree = compile(value, "reward.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise ValueError(f"line {line}: {getattr(error, 'msg', error)}" if line else str(error)) from error
        except (RecursionError, MemoryError) as error:
            raise ValueError("it is nested too deeply to be read") from error
        if "reward" not in tree.co_names and "reward" not in tree.co_varnames:
            raise ValueError("it must define a function `reward(prompt, completion, answer, row)`")
        return value


AnyComponent = Annotated[Exact | Numeric | Pattern | Length | Python, Field(discriminator="kind")]
COMPONENT_KINDS = frozenset({"exact", "numeric", "pattern", "length", "python"})


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


def _checked_pattern(value: str | None) -> str | None:
    if value is not None:
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"not a regular expression: {error}") from error
    return value
