"""Callers of the API by Django's test client, and the shape of what they are told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client as DjangoClient

from workspaces.models import Membership, Role, User
from workspaces.tokens import token_create

V1 = "/api/v1"


def key_of(user: User, role: Role | None = None) -> str:
    """A token of this person for their workspace, with all of their role unless told less."""
    member = Membership.objects.select_related("workspace").get(user=user)
    wanted = Role(member.role) if role is None else role
    return token_create(user=user, workspace=member.workspace, name="test", role=wanted)[1]


@dataclass
class Caller:
    """Requests with one token; answers as Django's test client gives them."""

    key: str

    def __post_init__(self) -> None:
        self.client = DjangoClient(raise_request_exception=False, headers={"Authorization": f"Bearer {self.key}"})

    def get(self, path: str, **params: Any) -> Any:
        return self.client.get(V1 + path, params)

    def post(self, path: str, body: Any = None) -> Any:
        text = body if isinstance(body, str | bytes) else json.dumps({} if body is None else body)
        return self.client.post(V1 + path, text, content_type="application/json")

    def send(self, method: str, path: str, body: Any = None) -> Any:
        text = "" if body is None else json.dumps(body)
        return self.client.generic(method, V1 + path, text, content_type="application/json")

    def upload(self, path: str, **fields: Any) -> Any:
        return self.client.post(V1 + path, fields)


def problem(answer: Any) -> dict[str, Any]:
    """The inside of a refusal, once its shape has been checked."""
    assert answer["Content-Type"].startswith("application/json")
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "fields", "request_id"}
    assert answer["X-Request-ID"] == body["error"]["request_id"]
    assert "Traceback" not in answer.content.decode()
    error: dict[str, Any] = body["error"]
    return error
