"""A team with one of everything, and everybody who might ask for it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import factories
from access_table import Caller
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.conf import settings
from django.test import Client
from django.test.client import ClientHandler
from django.utils import timezone
from job_rows import run_job, write_log, write_points, write_rollouts
from proven import just_proven
from software_key import new_credential

from catalog.aliases import alias_move
from catalog.models import Checkpoint, ModelVersion
from catalog.registry import merged_record, model_describe, model_version_create, model_version_note
from catalog.services import dataset_upload, reward_save
from delivery.models import Message
from delivery.services import message_enqueue
from jobs.models import Job, Sweep, SweepMember
from records.models import Rollout
from records.saved import view_save
from trainers.storage import Storage
from workspaces.invitations import invitation_create
from workspaces.models import ApiToken, Membership, Project, Role, SharedLink, User, Workspace
from workspaces.scopes import Scope
from workspaces.services import member_add, project_create, workspace_create
from workspaces.sharing import shared_link_create
from workspaces.tokens import token_create
from workspaces.vault import secret_set

# Stands in every text of the team. Whoever finds it in an answer has seen something of theirs.
MARKER = "kestrel-7f3a"
PASSWORD = "four words in a row"


@dataclass(frozen=True)
class World:
    """``objects``: values for the arguments of addresses. ``keys``: the session or token each caller comes with."""

    objects: dict[str, Any]
    keys: dict[str, str]

    def page_client(self, caller: Caller, **options: Any) -> Client:
        """A browser of this caller, signed in when the caller has a session."""
        client = _client(**options)
        if caller.name == TOKEN_AT_A_PAGE.name:
            client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {self.keys['owner’s token']}"
        elif key := self.keys.get(caller.name):
            client.cookies[settings.SESSION_COOKIE_NAME] = key
        return client

    def program_client(self, caller: Caller) -> Client:
        """A program of this caller, with its token when it has one."""
        client = _client()
        if caller.name == SESSION_AT_THE_API.name:
            client.cookies[settings.SESSION_COOKIE_NAME] = self.keys["owner"]
        elif key := self.keys.get(caller.name):
            client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {key}"
        return client


def _client(**options: Any) -> Client:
    client = Client(raise_request_exception=False, **options)
    # Each handler loads the middleware anew, which takes longer than most answers.
    client.handler = _handler(client.handler.enforce_csrf_checks)
    return client


@cache
def _handler(checks: bool) -> ClientHandler:
    return ClientHandler(checks)


NOBODY = Caller("nobody", known=False)
TOKEN_AT_A_PAGE = Caller("a token instead of a session", known=False)
SESSION_AT_THE_API = Caller("a session instead of a token", known=False)
PEOPLE = (
    NOBODY,
    TOKEN_AT_A_PAGE,
    Caller("deactivated", known=False),
    Caller("stranger", home_role=Role.OWNER),
    Caller("removed"),
    Caller("staff", staff=True),
    Caller("viewer", role=Role.VIEWER),
    Caller("editor", role=Role.EDITOR),
    Caller("admin", role=Role.ADMIN),
    Caller("owner", role=Role.OWNER, owns=True),
)
PROGRAMS = (
    NOBODY,
    SESSION_AT_THE_API,
    Caller("deactivated’s token", known=False),
    Caller("removed’s token", known=False),
    Caller("revoked token", known=False),
    Caller("expired token", known=False),
    Caller("stranger’s token", home_role=Role.OWNER),
    Caller("owner’s token of another workspace", home_role=Role.OWNER),
    Caller("viewer’s token", role=Role.VIEWER),
    Caller("owner’s token of a viewer", role=Role.VIEWER),
    Caller("editor’s token", role=Role.EDITOR),
    Caller("admin’s token", role=Role.ADMIN),
    *(Caller(f"owner’s token to {scope}", role=Role.OWNER, scopes=frozenset({Scope.READ, scope})) for scope in Scope),
    Caller("owner’s token", role=Role.OWNER),
)


def build() -> World:
    """Make the team, its things and all callers; in the transaction of whoever calls."""
    people = {
        name: User.objects.create_user(f"{name}.{MARKER}@example.org", PASSWORD, name=f"{name} {MARKER}")
        for name in ("owner", "admin", "editor", "viewer", "deactivated")
    }
    # What outsiders are called is no secret of the team.
    people |= {
        name: User.objects.create_user(f"{name}@example.org", PASSWORD, name=name, is_staff=name == "staff")
        for name in ("stranger", "removed", "staff", "both")
    }
    team = workspace_create(name=f"Team {MARKER}", owner=people["owner"])
    for name in ("admin", "editor", "viewer", "deactivated", "removed", "both"):
        role = Role[name.upper()] if name.upper() in Role.__members__ else Role.OWNER
        member_add(workspace=team, user=people[name], role=role, actor=people["owner"])
    elsewhere = workspace_create(name="Elsewhere", owner=people["stranger"])
    project_create(workspace=elsewhere, name="Elsewhere", actor=people["stranger"])
    member_add(workspace=elsewhere, user=people["both"], role=Role.OWNER, actor=people["stranger"])
    keys = _keys(people, team, elsewhere)
    project = project_create(workspace=team, name=MARKER, description=MARKER, actor=people["owner"])
    objects = {"workspace_id": team.pk, "project_id": project.pk, "number": 1}
    objects |= _things(project, people["owner"]) | _ways_to_sign_in(people["owner"])
    offer = invitation_create(workspace=team, email=f"{MARKER}@example.org", role=Role.VIEWER, actor=people["owner"])
    secret = secret_set(workspace=team, name=MARKER, value=f"value of {MARKER}", actor=people["owner"])
    objects |= {"user_id": people["viewer"].pk, "invitation_id": offer.pk, "secret_id": secret.pk}
    message_enqueue(key=MARKER, recipient=f"{MARKER}@example.org", subject=MARKER, text=MARKER)
    objects["message_id"] = Message.objects.get(key=MARKER).pk
    objects["token_id"] = ApiToken.objects.get(user=people["owner"], name=f"{MARKER} kept").pk
    Membership.objects.filter(user=people["removed"]).delete()
    User.objects.filter(pk=people["deactivated"].pk).update(is_active=False)
    return World(objects, keys)


def _keys(people: dict[str, User], team: Workspace, elsewhere: Workspace) -> dict[str, str]:
    keys = {}
    for name, user in people.items():
        client = Client()
        client.force_login(user)
        just_proven(client, user)
        keys[name] = client.cookies[settings.SESSION_COOKIE_NAME].value

    def key(of: str, workspace: Workspace = team, role: Role = Role.OWNER, label: str = MARKER) -> str:
        user = people[of]
        own = Role(Membership.objects.get(user=user, workspace=workspace).role)
        return token_create(user=user, workspace=workspace, name=label, role=min(role, own))[1]

    for name in ("owner", "admin", "editor", "viewer", "deactivated"):
        keys[f"{name}’s token"] = key(name, label=f"{MARKER} kept")
    keys["removed’s token"] = key("removed", label="own")
    keys["stranger’s token"] = key("stranger", elsewhere, label="own")
    keys["owner’s token of another workspace"] = key("both", elsewhere, label="own")
    keys["owner’s token of a viewer"] = key("owner", role=Role.VIEWER)
    for scope in Scope:
        keys[f"owner’s token to {scope}"] = token_create(
            user=people["owner"], workspace=team, name=MARKER, role=Role.OWNER, scopes=[scope]
        )[1]
    keys["revoked token"] = key("owner", label="revoked")
    keys["expired token"] = key("owner", label="expired")
    past = timezone.now() - timedelta(seconds=1)
    ApiToken.objects.filter(name="revoked").update(revoked_at=past)
    ApiToken.objects.filter(name="expired").update(expires_at=past)
    return keys


def _ways_to_sign_in(owner: User) -> dict[str, Any]:
    """A passkey, an authenticator app, a session elsewhere, and an address that waits to be confirmed."""
    passkey = WebAuthn.add(owner, f"Passkey {MARKER}", new_credential()).instance
    TOTP.activate(owner, generate_totp_secret())
    RecoveryCodes.activate(owner)
    waiting = EmailAddress.objects.create(user=owner, email="waiting@example.org")
    return {"pk": passkey.pk, "key": EmailConfirmationHMAC(waiting).key, "uidb36": owner.pk.hex}


def _things(project: Project, owner: User) -> dict[str, Any]:
    """One of everything a project can hold, each text of it marked."""
    row = json.dumps({"question": f"{MARKER} 1 + 1?", "answer": MARKER})
    data = dataset_upload(
        project=project,
        name=f"Data {MARKER}",
        file=io.BytesIO(f"{row}\n{{{MARKER}".encode()),
        file_name=f"{MARKER}.jsonl",
        actor=owner,
        description=MARKER,
    )
    reward = reward_save(
        project=project,
        name=f"Reward {MARKER}",
        spec={"components": [{"kind": "exact", "name": MARKER}]},
        actor=owner,
        description=MARKER,
    )
    job = _job(project, owner)
    view = view_save(project=project, owner=owner, page="jobs", name=MARKER, query="state=failed")
    version = _model(project, job)
    return {
        "dataset_id": data.dataset_id,
        "reward_id": reward.reward_id,
        "job_id": job.pk,
        "view_id": view.pk,
        "sweep_id": _sweep(project, job, owner).pk,
        "link_id": _link(job).pk,
        "rollout_id": Rollout.objects.filter(subject_id=job.pk).values_list("pk", flat=True)[0],
        "checkpoint_id": version.checkpoint_id,
        "model_id": version.model_id,
        "version_id": version.pk,
    }


def _sweep(project: Project, job: Job, owner: User) -> Sweep:
    spec = {"task": job.spec, "fields": {"seed": {"values": [1, 2]}}}
    sweep = Sweep.objects.create(
        project=project, name=f"Sweep {MARKER}", spec=spec, idempotency_key="sweep", submitted_by=owner
    )
    SweepMember.objects.create(sweep=sweep, job=job, place=0)
    return sweep


def _job(project: Project, owner: User) -> Job:
    job = factories.job(project, owner, name=f"Job {MARKER}")
    attempt = run_job(job)
    write_points(job, attempt, {f"train/{MARKER}": [1.0, 2.0, 3.0]})
    write_log(job, attempt, [f"line {MARKER}"])
    write_rollouts(job, attempt, step=1, prompt=MARKER, completion=MARKER, answer=MARKER)
    report = f"reports/{job.pk}.html"
    Storage(settings.STORAGE_URL).put_bytes(report, f"<p>{MARKER}</p>".encode())
    Job.objects.filter(pk=job.pk).update(reason=MARKER, advice=MARKER, report_key=report)
    job.refresh_from_db()
    return job


def _link(job: Job) -> SharedLink:
    owner = job.submitted_by
    assert owner is not None
    return shared_link_create(
        workspace=job.project.workspace, kind="job-report", object_id=job.pk, label=MARKER, days=7, actor=owner
    )


def _model(project: Project, job: Job) -> ModelVersion:
    storage = Storage(settings.STORAGE_URL)
    files = [{"name": "a.bin", "size": len(MARKER), "sha256": "ab" * 32}]
    for folder in (f"checkpoints/{job.pk}", f"merged/{job.pk}"):
        storage.put_bytes(f"{folder}/a.bin", MARKER.encode())
    storage.put_bytes(f"merged/{job.pk}/manifest.json", json.dumps({"files": files}).encode())
    checkpoint = Checkpoint.objects.create(
        project=project,
        made_by_kind="job",
        made_by_id=job.pk,
        epoch=1,
        step=2,
        name=MARKER,
        uri=f"checkpoints/{job.pk}",
        format="peft",
        files=files,
        size=len(MARKER),
        final=True,
    )
    version = model_version_create(
        project=project,
        name=f"Model {MARKER}",
        checkpoint=checkpoint,
        base_model=job.base_model,
        made_by_kind="job",
        made_by_id=job.pk,
        evaluation={"after": {"accuracy": 0.5}},
    )
    merged_record(version=version, uri=f"merged/{job.pk}")
    owner = job.submitted_by
    assert owner is not None
    alias_move(model=version.model, name="candidate", number=1, actor=owner)
    model_describe(model=version.model, actor=owner, description=MARKER, tags=[MARKER])
    model_version_note(version=version, actor=owner, notes=MARKER)
    Job.objects.filter(pk=job.pk).update(model_version=version)
    return version
