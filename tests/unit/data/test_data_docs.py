"""The examples of docs/data-formats.md and docs/rewards.md are read and run as they stand."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from trainers.data.columns import _NAMES
from trainers.data.inspection import inspect_dataset
from trainers.recipes.context import ScoredInput
from trainers.rewards.scorer import Scorer, try_reward
from trainers.rewards.spec import COMPONENT_KINDS, RewardSpec

DOCS = Path(__file__).parents[3] / "docs"
DATA, REWARDS = (DOCS / name for name in ("data-formats.md", "rewards.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks(DATA, "jsonl"))
def test_every_example_row_can_be_used(block: str) -> None:
    for line in block.splitlines():
        report = inspect_dataset(io.BytesIO(line.encode()), "example.jsonl")
        assert (report.rows, report.usable) == (1, 1), report.problems
        assert report.with_answer == ("text" not in json.loads(line))


def test_the_names_of_columns_are_those_of_the_code() -> None:
    row = rf"^\| ({'|'.join(_NAMES)}) \| (.*) \|$"
    table = dict(re.findall(row, DATA.read_text(), re.MULTILINE))
    assert {part: tuple(names.split(", ")) for part, names in table.items()} == _NAMES


def test_the_example_reward_scores() -> None:
    first, *others = [RewardSpec.model_validate(json.loads(block)) for block in blocks(REWARDS, "json")]
    assert [spec.names for spec in others] == [["judge"]]
    with Scorer(first) as scorer:
        [score] = scorer.score([ScoredInput("q", "Sorry, it is 7.", "7", {})])
    assert score.parts == {"right": 1, "short": 1, "apologizes": 1} and score.reward == pytest.approx(0.7)


def test_the_example_function_scores() -> None:
    [code] = blocks(REWARDS, "python")
    spec = RewardSpec.model_validate({"components": [{"kind": "python", "code": code}]})
    samples = [ScoredInput("q", completion, "7", {}) for completion in ("Answer: 7", "Answer: 8", "7")]
    assert [tried["total"] for tried in try_reward(spec, samples)] == [1.0, 0.2, 0.0]


def test_every_kind_of_component_is_described() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", REWARDS.read_text(), re.MULTILINE)) == COMPONENT_KINDS
