"""Every page of portal, workspaces and catalog: who gets which answer, that looking changes nothing, and nasty names.

Pages of signing in are in the tables of ``tests/integration/access`` alone, where every other address is too.

A route without a line here fails the first test.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import factories
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from catalog.models import Checkpoint
from catalog.registry import merged_record, model_version_create
from catalog.services import dataset_upload, reward_save
from trainers.storage import Storage
from workspaces.invitations import invitation_create
from workspaces.models import Project, Role
from workspaces.tokens import token_create
from workspaces.vault import secret_set

pytestmark = pytest.mark.django_db

APPS = ("portal", "workspaces", "catalog")
NAMES = (
    "plain",
    "<script>alert('x')</script> & \"quotes\" {{ braces }} {% tag %}",
    "🧮🎉👩‍👩‍👧‍👦 模型训练数据集",
    "עברית \u202ereversed\u202c العربية",
    "a" * 200,
    "../slashes/and.dots/...",
    "%s %(name)s {0} \\u0000 ' OR 1=1 --",
)

# What a GET answers to: nobody, a stranger, a viewer, an editor. P: a page of the project or the team; E: only for
# editors; A: only for admins or owners.
P, E, MINE, POST = (302, 404, 200, 200), (302, 404, 403, 200), (302, 200, 200, 200), (302, 405, 405, 405)
A, STAFF = (302, 404, 403, 403), (302, 404, 404, 404)
EXPECTED: dict[str, tuple[int, int, int, int]] = {
    "home": (302, 302, 302, 302),
    "mails": STAFF,
    "mail": STAFF,
    "settings": MINE,
    "tokens": MINE,
    "theme": POST,
    "token-revoke": POST,
    "project-new": E,
    "account": MINE,
    "account-export": POST,
    "invitation": (410, 410, 410, 410),
    "workspace-new": MINE,
    "workspace": P,
    "workspace-transfer": A,
    "workspace-leave": POST,
    "workspace-export": POST,
    "workspace-delete": A,
    "members": P,
    "who-can-see": P,
    "member-role": POST,
    "member-remove": POST,
    "invitation-revoke": POST,
    "invitation-resend": POST,
    "team-tokens": A,
    "team-token-revoke": POST,
    "secrets": E,
    "secret-delete": POST,
    "audit": A,
    "audit-csv": A,
    "project-home": P,
    "datasets": P,
    "dataset-upload": E,
    "dataset": P,
    "dataset-file": P,
    "dataset-compare": P,
    "dataset-delete": POST,
    "rewards": P,
    "reward-new": E,
    "reward-component": E,
    "reward-try": POST,
    "reward": P,
    "reward-edit": E,
    "reward-delete": POST,
    "models": P,
    "model": P,
    "adapter-download": P,
    "merged-state": P,
    "merged-make": POST,
    "merged-download": P,
}
# What a POST of nothing answers to: a stranger and a viewer get no further than this; it must change nothing.
POSTS = {
    "token-revoke": (404, 404),
    "project-new": (404, 403),
    "workspace-transfer": (404, 403),
    "workspace-export": (404, 403),
    "workspace-delete": (404, 403),
    "member-role": (404, 403),
    "member-remove": (404, 403),
    "invitation-revoke": (404, 403),
    "invitation-resend": (404, 403),
    "team-token-revoke": (404, 403),
    "secrets": (404, 403),
    "secret-delete": (404, 403),
    "dataset-upload": (404, 403),
    "dataset-delete": (404, 403),
    "reward-new": (404, 403),
    "reward-try": (404, 403),
    "reward-edit": (404, 403),
    "reward-delete": (404, 403),
    "merged-make": (404, 403),
}


def routes(resolver: Any = None) -> Iterator[URLPattern]:
    for pattern in (resolver or get_resolver()).url_patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern)
        elif pattern.callback.__module__.split(".")[0] in APPS and "sign_in" not in pattern.callback.__module__:
            yield pattern


@pytest.fixture(params=NAMES, ids=lambda name: name[:12])
def thing_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def arguments(project: Project, alice: Any, bob: Any, workspace: Any, settings: Any) -> dict[str, Any]:
    return furnish(project, alice, "plain", settings)


def furnish(project: Project, alice: Any, name: str, settings: Any) -> dict[str, Any]:
    """One of everything in the project, called ``name``; the values of the routes' arguments."""
    row = json.dumps({"question": f"{name} 1 + 1?", "answer": name})
    file = io.BytesIO("\n".join([row, "{broken"]).encode())
    version = dataset_upload(project=project, name=name, file=file, file_name=f"{name}.jsonl", actor=alice)
    spec = {"components": [{"kind": "exact", "name": name[:60]}]}
    reward = reward_save(project=project, name=name, spec=spec, actor=alice, description=name)
    job = factories.job(project, alice, name=name)
    storage = Storage(settings.STORAGE_URL)
    storage.put_bytes(f"checkpoints/{job.pk}/a.bin", b"1")
    storage.put_bytes(f"merged/{job.pk}/a.bin", b"1")
    files = [{"name": "a.bin", "size": 1, "sha256": "ab" * 32}]
    storage.put_bytes(f"merged/{job.pk}/manifest.json", json.dumps({"files": files}).encode())
    checkpoint = Checkpoint.objects.create(
        project=project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=2, name="final",
        uri=f"checkpoints/{job.pk}", format="peft", files=files, size=1, final=True,
    )  # fmt: skip
    model = model_version_create(
        project=project, name=name, checkpoint=checkpoint, base_model=job.base_model,
        made_by_kind="job", made_by_id=job.pk, evaluation={"after": {"accuracy": 0.5}},
    )  # fmt: skip
    merged_record(version=model, uri=f"merged/{job.pk}")
    token, _key = token_create(user=alice, workspace=project.workspace, name=name)
    workspace = project.workspace
    invitation = invitation_create(workspace=workspace, email="new@example.com", role=Role.VIEWER, actor=alice)
    secret = secret_set(workspace=workspace, name="HF_TOKEN", value=f"value {name}", actor=alice)
    return {
        "project_id": project.pk,
        "workspace_id": project.workspace_id,
        "dataset_id": version.dataset_id,
        "reward_id": reward.reward_id,
        "model_id": model.model_id,
        "token_id": token.pk,
        "user_id": alice.pk,
        "invitation_id": invitation.pk,
        "secret_id": secret.pk,
        "key": "wrong",
        "message_id": uuid4(),
        "number": 1,
    }


def address(name: str, arguments: dict[str, Any]) -> str:
    pattern = next(pattern for pattern in routes() if pattern.name == name)
    wanted = {key: arguments[key] for key in pattern.pattern.converters}
    return reverse(name, kwargs=wanted) + ("?kind=exact" if name == "reward-component" else "")


def writes(queries: CaptureQueriesContext) -> list[str]:
    return [q["sql"] for q in queries if re.match(r"\s*(insert|update|delete)", q["sql"], re.IGNORECASE)]


def consume(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_every_route_is_in_the_table():
    assert {pattern.name for pattern in routes()} == set(EXPECTED)


def test_each_person_gets_the_answer_that_is_theirs_and_looking_changes_nothing(
    arguments: dict[str, Any], mallory: Any, carol: Any, bob: Any
):
    wrong = []
    for person, column in ((None, 0), (mallory, 1), (carol, 2), (bob, 3)):
        client = Client()
        if person is not None:
            client.force_login(person)
        for name, row in EXPECTED.items():
            with CaptureQueriesContext(connection) as queries:
                answer = client.get(address(name, arguments))
                consume(answer)
            if answer.status_code != row[column]:
                wrong.append(f"{name} answers {person} with {answer.status_code}, not {row[column]}")
            wrong += [f"{name} for {person} writes: {sql}" for sql in writes(queries)]
            if person is None and answer.status_code == 302 and not answer["Location"].startswith(reverse("sign-in")):
                wrong.append(f"{name} does not lead to the sign-in page")
    assert wrong == []


def test_strangers_and_viewers_change_nothing(arguments: dict[str, Any], mallory: Any, carol: Any):
    wrong = []
    for person, column in ((mallory, 0), (carol, 1)):
        client = Client()
        client.force_login(person)
        for name, row in POSTS.items():
            with CaptureQueriesContext(connection) as queries:
                answer = client.post(address(name, arguments), {"name": "x"})
            if answer.status_code != row[column]:
                wrong.append(f"{name} answers {person} with {answer.status_code}, not {row[column]}")
            wrong += [f"{name} for {person} writes: {sql}" for sql in writes(queries)]
    assert wrong == []


def test_an_id_of_nothing_is_not_found(arguments: dict[str, Any], bob: Any, client: Client):
    client.force_login(bob)
    tried, wrong = 0, []
    for name in (name for name, row in EXPECTED.items() if row in (P, E)):
        for key in (key for key in arguments if key.endswith("_id")):
            url = address(name, arguments | {key: "00000000-0000-0000-0000-000000000000"})
            if url != address(name, arguments):
                tried += 1
                if (status := client.get(url).status_code) != 404:
                    wrong.append(f"{name} without its {key} answers {status}")
    assert tried > len(EXPECTED) / 2
    assert wrong == []


def test_nasty_names_are_only_text_on_every_page(
    thing_name: str, alice: Any, workspace: Any, settings: Any, client: Client
):
    alice.name = thing_name[:150]
    alice.save()
    project = Project.objects.create(
        workspace=workspace, name=thing_name[:100], description=thing_name, created_by=alice
    )
    arguments = furnish(project, alice, thing_name, settings)
    client.force_login(alice)
    for name, row in EXPECTED.items():
        if row not in (P, E, A, MINE):
            continue
        answer = client.get(address(name, arguments))
        body = consume(answer)
        assert answer.status_code == 200, name
        if answer["Content-Type"].startswith("text/html"):
            assert b"<script>alert(" not in body, name
            assert body.count(b"<h1") == (
                0 if name in ("merged-state", "reward-component", "who-can-see", "dataset-compare") else 1
            ), name
