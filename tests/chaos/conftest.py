"""After each test the devices are free again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running import Site


@pytest.fixture(autouse=True)
def _no_job_left(site: Site) -> Iterator[None]:
    """Devices are few: what a test leaves running would make the next one wait."""
    yield
    site.clear()
