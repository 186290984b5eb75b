"""The example tasks can be run, and there is one for every recipe and environment."""

from __future__ import annotations

import pytest

from trainers.envs import ENVIRONMENTS
from trainers.presets import BY_KEY, PRESETS
from trainers.spec import ENVIRONMENT_SOURCE, RECIPES


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.key)
def test_a_preset_is_a_task(preset):
    task = preset.task("dataset:x@1")
    own = task.environment.kind != "single_turn"
    assert task.data.source == (ENVIRONMENT_SOURCE if own else "dataset:x@1")
    assert preset.title and preset.description.endswith(".") and preset.needs
    assert preset.task() is not preset.task(), "a task of its own each time"


def test_every_recipe_has_a_preset_and_keys_are_unique():
    assert {preset.spec["recipe"] for preset in PRESETS} == set(RECIPES)
    assert len(BY_KEY) == len(PRESETS)


def test_environments_of_presets_exist():
    kinds = {preset.task().environment.kind for preset in PRESETS} - {"single_turn"}
    assert kinds <= set(ENVIRONMENTS) and len(kinds) >= 2
