"""The documents of the task spec say what the code checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainers.spec_docs import documents

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(documents()))
def test_the_document_is_current(name):
    assert (DOCS / name).read_text() == documents()[name], "run `make schema` and commit what it writes"


def test_every_field_of_every_section_is_on_the_page():
    page = documents()["task-spec.md"]
    for field in ("data.columns.prompt", "hyperparameters.learning_rate", "budget.amount", "which", "timeout_s"):
        assert f"| `{field}` |" in page
