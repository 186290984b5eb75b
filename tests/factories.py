"""Rows for tests, made as the product makes them where that is cheap."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

from django.utils import timezone

from catalog.models import BaseModel, Dataset, DatasetVersion
from compute.models import DeviceKind, Node, Pool, Tier
from jobs.models import Job
from jobs.services import job_submit
from workspaces.models import Project, User

_numbers = itertools.count(1)


def dataset_version(project: Project, **fields: Any) -> DatasetVersion:
    number = next(_numbers)
    dataset = Dataset.objects.create(project=project, name=f"data {number}")
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    values = {
        "number": 1,
        "file_name": "sums.jsonl",
        "object_key": f"objects/{digest[:2]}/{digest}",
        "sha256": digest,
        "size": 100,
        "rows": 10,
        "usable_rows": 10,
    }
    return DatasetVersion.objects.create(dataset=dataset, **(values | fields))


def base_model(name: str = "tiny-random-llama") -> BaseModel:
    return BaseModel.objects.get_or_create(
        name=name, defaults={"title": name, "source": name, "parameters": 100_000, "license": "Apache-2.0"}
    )[0]


def spec(version: DatasetVersion, **parts: Any) -> dict[str, Any]:
    return {
        "name": "sums",
        "recipe": "grpo",
        "model": {"base": "tiny-random-llama"},
        "data": {"source": version.source},
        "reward": {"components": [{"kind": "numeric"}]},
        "hyperparameters": {"steps": 4},
    } | parts


def job(project: Project, user: User, *, key: str | None = None, **parts: Any) -> Job:
    base_model()
    version = dataset_version(project)
    return job_submit(
        project=project, spec=spec(version, **parts), submitted_by=user, idempotency_key=key or f"key {next(_numbers)}"
    )


def node(devices: int = 2, kind: str = DeviceKind.CPU, tier: str = Tier.RESERVED) -> Node:
    pool, _ = Pool.objects.get_or_create(device_kind=kind, tier=tier, defaults={"name": f"{kind} {tier}"})
    number = next(_numbers)
    return Node.objects.create(
        pool=pool, ray_id=f"ray{number}", address=f"10.0.0.{number}", devices=devices, seen_at=timezone.now()
    )
