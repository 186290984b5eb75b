"""Projects with much, little and nothing in them, and with the names that break pages."""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from datetime import timedelta
from typing import Any

import factories
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from software_key import new_credential

from catalog.aliases import alias_move, alias_remove
from catalog.models import Checkpoint, DatasetVersion
from catalog.registry import model_describe, model_version_create, model_version_note
from catalog.services import dataset_upload, reward_save
from jobs.models import Job
from jobs.states import State
from workspaces.invitations import invitation_create
from workspaces.models import Invitation, Project, Role, User, Workspace
from workspaces.services import member_add
from workspaces.tokens import token_create
from workspaces.vault import secret_set

WIDE, PHONE = (1440, 900), (390, 844)
NASTY_NAMES = (
    "<script>alert('x')</script> & \"quotes\" {{ braces }}",
    "模型训练数据集：加法 🧮🎉👩‍👩‍👧‍👦",
    "עברית ‮reversed‬ العربية mixed with English",
    "a" * 180,
    "slashes/and.dots/../and-spaces   ...   " + "long " * 25,
)

REWARDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Right sum", {"components": [{"kind": "numeric"}, {"kind": "length", "maximum": 40, "weight": 0.1}]}),
    (
        "Format and answer",
        {
            "components": [
                {"kind": "exact", "extract": r"<answer>(.*)</answer>", "ignore_case": True},
                {"kind": "pattern", "name": "tags", "pattern": "<answer>.*</answer>", "weight": 0.25},
                {
                    "kind": "python",
                    "name": "politeness",
                    "weight": -0.5,
                    "code": "def reward(prompt, completion, answer, row):\n    return float('please' in completion)\n",
                },
            ]
        },
    ),
)


SIGNED_OUT = (
    "sign-in",
    "account_reset_password",
    "account_reset_password_done",
    "account_reset_password_from_key_done",
    "account_signup",
    "account_email_verification_sent",
)
SECURITY = (
    "security",
    "account_email",
    "password",
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_add_webauthn",
)


def ways_to_sign_in(user: User, names: tuple[str, ...] = ("Laptop",)) -> list[str]:
    """An app, passkeys with these names, recovery codes and sessions; addresses of the pages about them."""
    for number, agent in enumerate(("Mozilla/5.0 (X11; Linux) Firefox/140.0", "curl/8.5.0", "<b>" * 60)):
        client = Client(headers={"User-Agent": agent}, REMOTE_ADDR=f"192.0.2.{number}")
        client.post(reverse("sign-in"), {"email": user.email, "password": "four words in a row"})
    TOTP.activate(user, generate_totp_secret())
    passkeys = [WebAuthn.add(user, name[:100], new_credential()).instance for name in names]
    RecoveryCodes.activate(user)
    return [
        *(reverse(name) for name in SECURITY),
        *(reverse(name, args=[passkeys[0].pk]) for name in ("mfa_edit_webauthn", "mfa_remove_webauthn")),
    ]


def project_in(workspace: Workspace, name: str, user: User, description: str = "") -> Project:
    return Project.objects.create(workspace=workspace, name=name[:100], created_by=user, description=description)


def sums_rows(count: int) -> list[str]:
    return [
        json.dumps({"question": f"What is {n % 9 + 1} + {n % 7 + 1}?", "answer": str(n % 9 + n % 7 + 2), "n": n})
        for n in range(count)
    ]


def nasty_rows() -> list[str]:
    """Rows whose texts attack the page, and rows that cannot be used."""
    rows = [json.dumps({"问题": f"{text}?", "答案": text[:300], "备注": None}) for text in NASTY_NAMES]
    rows += [
        json.dumps({"问题": f"第 {n} 题：{n} 加 {n} 等于多少？", "答案": str(2 * n)}, ensure_ascii=False)
        for n in range(300)
    ]
    rows[40:40] = [
        "not json at all <b>",
        '{"问题": "", "答案": "1"}',
        '{"问题": "没有答案"}',
        '{"答案": "7"}',
        "[1, 2]",
    ]
    rows += ["{" + "x" * 300] * 60
    return rows


def upload(project: Project, user: User, name: str, rows: list[str], file_name: str = "rows.jsonl") -> DatasetVersion:
    file = io.BytesIO("\n".join(rows).encode())
    return dataset_upload(project=project, name=name[:200], file=file, file_name=file_name, actor=user)


# The key in the link of the open invitation that ``fill_team`` makes.
INVITATION_KEY = "an-invitation"


def fill_team(workspace: Workspace, user: User, names: tuple[str, ...] = ("Grace",)) -> None:
    """Members, tokens, secrets and invitations of a team, each with one of the names."""
    roles = (Role.EDITOR, Role.ADMIN, Role.OWNER, Role.VIEWER)
    for number, name in enumerate(names):
        person = User.objects.create_user(f"person{number}@example.org", name=name[:150])
        member_add(workspace=workspace, user=person, role=roles[number % 4], actor=user)
        token_create(user=person, workspace=workspace, name=name[:100], role=Role.VIEWER)
        secret_set(workspace=workspace, name=f"KEY_{number}", value=f"value number {number}", actor=person)
        invitation_create(workspace=workspace, email=f"new{number}@example.org", role=Role.VIEWER, actor=user)
    digest = hashlib.sha256(INVITATION_KEY.encode()).hexdigest()
    Invitation.objects.filter(email="new0@example.org").update(digest=digest)


def team_pages(workspace: Workspace) -> dict[str, str]:
    """The address of every page of a team, by name."""
    names = ("workspace", "members", "secrets", "team-tokens", "audit", "workspace-transfer", "workspace-delete")
    return {name: reverse(name, args=[workspace.pk]) for name in names}


def fill_rewards(project: Project, user: User, names: tuple[str, ...] = ()) -> None:
    for name, spec in REWARDS:
        reward_save(project=project, name=name, spec=spec, actor=user, description="Checks sums of two numbers.")
    for name in names:
        reward_save(project=project, name=name[:200], spec=REWARDS[1][1], actor=user, description=name)


def fill_jobs(project: Project, user: User, names: tuple[str, ...] = ("sums-grpo",)) -> list[Job]:
    """One job in every state that the home page tells apart, for each name."""
    now = timezone.now()
    jobs = []
    for index, name in enumerate(names):
        for state, fields in (
            (State.RUNNING, {"fraction": 0.42, "eta_s": 380.0, "step": 84, "phase": "training", "started_at": now}),
            (State.QUEUED, {}),
            (State.FAILED, {"reason": "The loss became NaN at step 31.", "ended_at": now - timedelta(hours=3)}),
            (State.SUCCEEDED, {"result": RESULT, "ended_at": now - timedelta(days=index), "fraction": 1.0}),
            (State.CANCELLED, {"reason": "Cancelled.", "ended_at": now - timedelta(days=40)}),
        ):
            job = factories.job(project, user, name=name[:200])
            advice = "Lower the learning rate, then start it again." if state == State.FAILED else ""
            Job.objects.filter(pk=job.pk).update(state=state, advice=advice, **fields)
            job.refresh_from_db()
            jobs.append(job)
            if state == State.SUCCEEDED:
                job.model_version = model_of(job)
                job.save(update_fields=["model_version"])
    return jobs


RESULT = {
    "before": {"accuracy": 0.2539, "reward": 0.31, "accuracy_greedy": 0.29, "reward_greedy": 0.33, "samples": 256},
    "after": {"accuracy": 0.9727, "reward": 1.02, "accuracy_greedy": 0.98, "reward_greedy": 1.04, "samples": 256},
    "steps": 200,
    "tokens": 1_234_567,
}
FILES = [
    {"name": "adapter_config.json", "size": 812, "sha256": "ab" * 32},
    {"name": "adapter_model.safetensors", "size": 19_543_210, "sha256": "cd" * 32},
]


def model_of(job: Job) -> Any:
    checkpoint = Checkpoint.objects.create(
        project=job.project,
        made_by_kind="job",
        made_by_id=job.pk,
        epoch=1,
        step=200,
        name=f"final-{uuid.uuid4().hex[:6]}",
        uri=f"checkpoints/{job.pk}/1/final",
        format="peft",
        files=FILES,
        size=sum(file["size"] for file in FILES),
        final=True,
    )
    return model_version_create(
        project=job.project,
        name=job.name,
        checkpoint=checkpoint,
        base_model=job.base_model,
        made_by_kind="job",
        made_by_id=job.pk,
        evaluation=RESULT,
    )


def fill_registry(version: Any, user: User, text: str = "Adds **two** numbers.\n\n- small\n- quick") -> None:
    """Aliases with a history, a description, tags and notes."""
    for name in ("candidate", "production"):
        alias_move(model=version.model, name=name, number=version.number, actor=user)
    alias_remove(model=version.model, name="candidate", actor=user)
    model_describe(model=version.model, actor=user, description=text, tags=["maths", text[:40]])
    model_version_note(version=version, actor=user, notes=text)
