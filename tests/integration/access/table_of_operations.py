"""What a token may do over HTTP, operation by operation. How to write a line: ``access_table.py``."""

from __future__ import annotations

from access_table import ADMIN, EDITOR, PUBLIC, TOKEN, VIEWER, at

from workspaces.scopes import Scope

V1 = "api/v1"
VERSION = f"{V1}/model-versions/<uuid:version_id>"
OURS = "project={project_id}"
REWARD = {"project": "{project_id}", "name": "New reward", "spec": {"components": [{"kind": "numeric"}]}}

OPERATIONS = (
    at("api/docs", get=PUBLIC),
    at("api/v1/openapi.json", get=PUBLIC),
    at(f"{V1}/me", get=TOKEN),
    at(f"{V1}/projects", get=TOKEN, post=EDITOR, json={"name": "New project"}, home=True),
    at(f"{V1}/datasets", get=TOKEN, post=EDITOR, query=OURS, form={"project": "{project_id}", "file": b'{"a": 1}'}),
    at(f"{V1}/datasets/<uuid:dataset_id>", get=VIEWER),
    at(f"{V1}/datasets/<uuid:dataset_id>/versions/<int:number>", get=VIEWER),
    at(f"{V1}/rewards", get=TOKEN, post=EDITOR, query=OURS, json=REWARD),
    at(f"{V1}/rewards/<uuid:reward_id>", get=VIEWER),
    at(f"{V1}/base-models", get=TOKEN),
    at(
        f"{V1}/jobs",
        get=TOKEN,
        post=EDITOR,
        scope=Scope.TRAIN,
        query=OURS,
        json={"project": "{project_id}", "spec": {}, "idempotency_key": "new", "reward": "reward:{reward_id}@1"},
    ),
    at(f"{V1}/jobs/<uuid:job_id>", get=VIEWER),
    at(f"{V1}/jobs/<uuid:job_id>/cancel", post=EDITOR, scope=Scope.TRAIN, json={}),
    at(f"{V1}/jobs/<uuid:job_id>/pause", post=EDITOR, scope=Scope.TRAIN, json={}),
    at(f"{V1}/jobs/<uuid:job_id>/resume", post=EDITOR, scope=Scope.TRAIN, json={}),
    at(f"{V1}/jobs/<uuid:job_id>/attempts", get=VIEWER, quiet=True),
    at(f"{V1}/jobs/<uuid:job_id>/checkpoints", get=VIEWER),
    at(
        f"{V1}/jobs/<uuid:job_id>/checkpoints/<uuid:checkpoint_id>/keep",
        post=EDITOR,
        scope=Scope.TRAIN,
        json={"kept": True},
    ),
    at(f"{V1}/jobs/<uuid:job_id>/checkpoints/<uuid:checkpoint_id>/download", get=VIEWER),
    at(f"{V1}/jobs/<uuid:job_id>/metrics", get=VIEWER),
    at(f"{V1}/jobs/<uuid:job_id>/logs", get=VIEWER),
    at(f"{V1}/jobs/<uuid:job_id>/report", get=VIEWER),
    at(f"{V1}/jobs/<uuid:job_id>/events", get=VIEWER),
    at(f"{V1}/models", get=TOKEN, query=OURS),
    at(f"{V1}/models/<uuid:model_id>", get=VIEWER, patch=EDITOR, delete=EDITOR, json={"tags": ["new"]}),
    at(
        f"{V1}/models/<uuid:model_id>/aliases/<str:name>",
        put=EDITOR,
        delete=EDITOR,
        args={"name": "candidate"},
        json={"version": 1},
    ),
    at(f"{V1}/models/<uuid:model_id>/alias-moves", get=VIEWER),
    at(VERSION, get=VIEWER, patch=EDITOR, delete=EDITOR, json={"notes": "new"}),
    at(f"{VERSION}/merge", post=EDITOR),
    at(f"{VERSION}/download", get=VIEWER),
    at(f"{VERSION}/files/<format>/<path:name>", get=VIEWER, args={"format": "adapter", "name": "a.bin"}),
    at(f"{V1}/members", get=TOKEN),
    at(f"{V1}/members/<uuid:user_id>", patch=ADMIN, delete=ADMIN, json={"role": "editor"}),
    at(f"{V1}/invitations", get=ADMIN, post=ADMIN, json={"email": "new@example.org"}, home=True),
    at(f"{V1}/invitations/<uuid:invitation_id>", delete=ADMIN),
    at(f"{V1}/invitations/<uuid:invitation_id>/resend", post=ADMIN),
    at(f"{V1}/tokens", get=ADMIN, post=ADMIN, json={"name": "new", "scopes": ["manage"]}, home=True),
    at(f"{V1}/tokens/<uuid:token_id>", delete=ADMIN),
    at(f"{V1}/audit", get=ADMIN, home=True),
)

# Addresses that answer 404 in the API's own shape to everyone, whatever the method.
NOTHING_THERE = ("api/", "^api(?:/(?P<path>.*))?$")
