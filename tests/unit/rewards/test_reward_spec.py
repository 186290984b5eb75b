from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trainers.rewards.spec import RewardSpec


def problem(component: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        RewardSpec.model_validate({"components": [component]})
    return str(caught.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def reward(:\n", "line 1"),
        ("x = 1\n  y = 2", "line 2"),
        ("def score(completion): return 1", "must define a function `reward"),
        ("reward = " + "-" * 90_000 + "1", "nested too deeply"),
        ("reward = " + "+".join("1" * 40_000), "nested too deeply"),
        ("\0", "null bytes"),
    ],
)
def test_code_that_cannot_be_a_reward_is_refused(code: str, words: str) -> None:
    assert words in problem({"kind": "python", "code": code})


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "[z-a]", "(?P<n>"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert "not a regular expression" in problem({"kind": "pattern", "pattern": pattern})


def test_two_components_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="another name"):
        RewardSpec.model_validate({"components": [{"kind": "exact"}, {"kind": "exact"}]})
