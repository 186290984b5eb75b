"""The pages on recipes and losses say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from trainers.defaults import SIZES, rate_warning, suggested_rate
from trainers.envs import ENVIRONMENTS
from trainers.losses import LOSSES, PREFERENCE_LOSSES, check_custom_loss
from trainers.presets import PRESETS
from trainers.spec import RECIPES, parse_spec
from trainers.spec.expression import FUNCTIONS, VARIABLES

DOCS = Path(__file__).resolve().parents[3] / "docs"
RECIPES_PAGE, LOSSES_PAGE, ENVIRONMENTS_PAGE = (
    (DOCS / f"{name}.md").read_text() for name in ("recipes", "losses", "environments")
)


def test_the_table_of_defaults_is_the_codes():
    for size in SIZES:
        rates = [f"{rate:.0e}".replace("e-0", "e-") for rate in (size.imitate, size.reinforce, size.prefer)]
        row = f"| {size.label} | {' | '.join(rates)} | {size.batch_size} | {size.group_size} |"
        assert row in RECIPES_PAGE


def test_every_recipe_loss_environment_and_word_of_the_language_is_explained():
    assert all(f"| `{name}` |" in RECIPES_PAGE for name in RECIPES)
    assert all(
        f"| `{name}` |" in LOSSES_PAGE for name in [*LOSSES, *PREFERENCE_LOSSES, "custom"] if name != "cross_entropy"
    )
    assert all(f"| `{name}` |" in ENVIRONMENTS_PAGE for name in ENVIRONMENTS)
    words = set(re.findall(r"[a-z_0-9]+", LOSSES_PAGE))
    assert words >= set(FUNCTIONS) and words >= set(VARIABLES)


def test_the_example_of_a_loss_can_be_run():
    text = re.search(r"expression: >-\n(.*?)```", LOSSES_PAGE, re.S)
    assert text
    check_custom_loss(" ".join(text[1].split()))


def test_a_rate_far_from_the_table_is_warned_of_and_the_examples_are_not():
    def task(rate: float, **parts):
        return parse_spec(
            {"recipe": "sft", "data": {"source": "x"}, "hyperparameters": {"learning_rate": rate}} | parts
        )

    assert "is high for sft with LoRA" in str(rate_warning(task(5e-3), 100_000_000))
    assert "so low for sft" in str(rate_warning(task(1e-7), 8_000_000_000))
    assert rate_warning(task(2e-4), 8_000_000_000) is None
    assert "2e-05 is a common start" in str(rate_warning(task(5e-4, recipe="dpo"), 1_000_000_000))
    assert suggested_rate(PRESETS[-1].task(), 100) == 5e-4
    assert not [preset.key for preset in PRESETS if rate_warning(preset.task(), 134_500_000)]
