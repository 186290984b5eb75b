"""The demo: a person, a project, the sums data and reward, and the job, made by the services that the pages use."""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from catalog.models import DatasetVersion, RewardVersion
from catalog.services import dataset_upload, reward_save
from jobs.models import Job
from jobs.services import job_submit
from trainers.data.sums import make_sums, to_jsonl
from workspaces.models import Project, User
from workspaces.services import owner_create

EMAIL = "demo@example.com"
WORKSPACE = "Demo"
PROJECT = "Sums"
QUESTION = "What is {a} + {b}? Answer with the number only."
HELD_OUT_PAIRS = 11
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
    sums = make_sums(smallest=0, largest=9, held_out_pairs=HELD_OUT_PAIRS, template=QUESTION)
    train = _upload(project, user, "Sums to learn", "sums.jsonl", to_jsonl(sums.train))
    test = _upload(project, user, "Sums held out", "sums-held-out.jsonl", to_jsonl(sums.held_out))
    reward = reward_save(project=project, name="Right sum", spec=REWARD, actor=user)
    return job_submit(
        project=project,
        spec=spec(train, test, reward, held_out=len(sums.held_out)),
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
        "hyperparameters": {"steps": 24, "batch_size": 8, "learning_rate": 5e-4},
        # Often, so that whoever tries it can kill the run and see it go on.
        "checkpointing": {"every_steps": 5},
        "evaluation": {
            "source": test.source,
            "prompts": held_out,
            "every_steps": 5,
            "samples_per_prompt": 4,
            "final_samples_per_prompt": -(-256 // held_out),
        },
    }


def _upload(project: Project, user: User, name: str, file_name: str, content: bytes) -> DatasetVersion:
    return dataset_upload(project=project, name=name, file=io.BytesIO(content), file_name=file_name, actor=user)
