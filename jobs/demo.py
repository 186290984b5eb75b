"""The demo: a person, a project, the sums data and reward, and the job, made by the services that the pages use."""

from __future__ import annotations

import io
import json
import random
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from catalog.models import DatasetVersion, RewardVersion
from catalog.services import dataset_upload, reward_save
from jobs.models import Job
from jobs.services import job_submit
from workspaces.models import Project, User
from workspaces.services import owner_create

EMAIL = "demo@example.com"
WORKSPACE = "Demo"
PROJECT = "Sums"
LARGEST_OPERAND = 9
HELD_OUT_SHARE = 0.2
REWARD = {"components": [{"kind": "numeric", "name": "right", "which": "last", "tolerance": 0}]}


@dataclass(frozen=True, slots=True)
class SignIn:
    """``password`` is None when the person has chosen another one since."""

    user: User
    project: Project
    password: str | None


def sign_in(note: Path) -> SignIn:
    """The demo's person and project, made the first time; their password is kept in ``note``, readable by its owner."""
    known = json.loads(note.read_text()) if note.exists() else {}
    user = User.objects.filter(email=EMAIL).first()
    if user is None:
        password = secrets.token_urlsafe(9)
        note.touch(mode=0o600)
        note.write_text(json.dumps({"email": EMAIL, "password": password}))
        user, workspace = owner_create(
            email=EMAIL, password=password, name="Demo", workspace_name=WORKSPACE, project_name=PROJECT
        )
        return SignIn(user, workspace.projects.get(), password)
    project = Project.objects.filter(workspace__memberships__user=user).order_by("created_at").first()
    if project is None:
        raise LookupError(f"{EMAIL} has no project any more; make one on the site, or start with another data folder.")
    password = str(known.get("password", ""))
    return SignIn(user, project, password if password and user.check_password(password) else None)


def submit(*, project: Project, user: User) -> Job:
    """Submit the demo job once more; data and reward are versions that exist already after the first time."""
    learn, held_out = sums(LARGEST_OPERAND, HELD_OUT_SHARE)
    train = _upload(project, user, "Sums to learn", "sums.jsonl", learn)
    test = _upload(project, user, "Sums held out", "sums-held-out.jsonl", held_out)
    reward = reward_save(project=project, name="Right sum", spec=REWARD, actor=user)
    return job_submit(
        project=project,
        spec=spec(train, test, reward, held_out=len(held_out)),
        submitted_by=user,
        idempotency_key=f"demo-{uuid4()}",
        reward_version=reward,
    )


def spec(train: DatasetVersion, test: DatasetVersion, reward: RewardVersion, *, held_out: int) -> dict[str, Any]:
    """The demo's task: GRPO on small sums, with at least 256 samples before and after on pairs it never trains on."""
    return {
        "name": "Learn to add",
        "recipe": "grpo",
        "data": {"source": train.source},
        "reward": reward.spec,
        "loss": {"name": "ppo"},
        "sampling": {"group_size": 8, "max_new_tokens": 16},
        "hyperparameters": {"steps": 25, "batch_size": 8, "learning_rate": 2e-4},
        "evaluation": {
            "source": test.source,
            "prompts": held_out,
            "every_steps": 5,
            "samples_per_prompt": 4,
            "final_samples_per_prompt": -(-256 // held_out),
        },
    }


def sums(largest: int, held_out: float, seed: int = 0) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """All sums of two operands from 0 to ``largest``; no pair, in either order, is in both parts."""
    pairs = [(a, b) for a in range(largest + 1) for b in range(a, largest + 1)]
    random.Random(seed).shuffle(pairs)
    cut = round(len(pairs) * held_out)
    return _rows(pairs[cut:]), _rows(pairs[:cut])


def _rows(pairs: list[tuple[int, int]]) -> list[dict[str, str]]:
    ordered = sorted({order for a, b in pairs for order in ((a, b), (b, a))})
    return [{"prompt": f"What is {a} + {b}? Answer with the number only.", "answer": str(a + b)} for a, b in ordered]


def _upload(project: Project, user: User, name: str, file_name: str, rows: list[dict[str, str]]) -> DatasetVersion:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return dataset_upload(project=project, name=name, file=io.BytesIO(text.encode()), file_name=file_name, actor=user)
