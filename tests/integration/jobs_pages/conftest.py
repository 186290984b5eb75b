"""A project with something in it. Django is imported inside the fixtures: this file may be read before it is set up."""

from __future__ import annotations

from typing import Any

import pytest

NUMERIC = {"components": [{"kind": "numeric", "name": "right"}]}


@pytest.fixture
def version(project: Any) -> Any:
    import factories

    return factories.dataset_version(project, rows=100, usable_rows=93)


@pytest.fixture
def reward(project: Any) -> Any:
    from catalog.models import RewardConfig, RewardVersion

    config = RewardConfig.objects.create(project=project, name="Right number")
    return RewardVersion.objects.create(reward=config, number=1, spec=NUMERIC)


@pytest.fixture
def base(db: None) -> Any:
    import factories

    return factories.base_model()


@pytest.fixture
def as_alice(client: Any, alice: Any) -> Any:
    client.force_login(alice)
    return client


@pytest.fixture
def job(project: Any, alice: Any) -> Any:
    import factories

    factories.node()
    return factories.job(project, alice)
