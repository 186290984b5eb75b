"""A running product with a team, a dataset, and jobs that train a tiny model for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Site

from trainers.data.sums import make_sums, to_jsonl
from tuneyard import Client

SETUP = """
import json
from uuid import uuid4
from workspaces.services import owner_create
from workspaces.tokens import token_create
user, workspace = owner_create(email=f"{uuid4().hex}@example.com", password="four words in a row", name="Chaos",
                               workspace_name=f"Chaos {uuid4().hex[:6]}")
print(json.dumps({"token": token_create(user=user, workspace=workspace, name="tests")[1]}))
"""


@pytest.fixture(scope="session")
def site(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    printed = stack.manage("shell", "-c", SETUP).stdout.strip().splitlines()[-1]
    client = Client(url=stack.url, token=json.loads(printed)["token"])
    file: Path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    file.write_bytes(to_jsonl(make_sums().train))
    yield Site(stack, client, client.datasets.upload(file)["source"])


@pytest.fixture(autouse=True)
def _no_job_left(site: Site) -> Iterator[None]:
    """Devices are few: what a test leaves running would make the next one wait."""
    yield
    for job in site.jobs:
        if not job.refresh().data["ended"]:
            job.cancel()
    for job in site.jobs:
        site.until_state(job, "succeeded", "failed", "cancelled")
    site.jobs.clear()
