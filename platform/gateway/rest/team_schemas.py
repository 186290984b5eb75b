"""Members, invitations, tokens and the audit log over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field

from gateway.rest.schemas import Input, PersonOut

RoleName = Literal["viewer", "editor", "admin", "owner"]


class MemberOut(Schema):
    user: PersonOut
    role: str
    joined_at: datetime
    last_active_at: datetime | None = Field(description="The last sign-in, change here, or use of a token here.")


class MembersOut(Schema):
    items: list[MemberOut]
    next: None = None


class MemberRoleIn(Input):
    role: RoleName


class InvitationIn(Input):
    email: str = Field(max_length=320)
    role: RoleName = "editor"
    days: int = Field(7, ge=1, le=90, description="How long it is open.")


class InvitationOut(Schema):
    id: UUID
    email: str
    role: str
    invited_by: str | None
    created_at: datetime
    sent_at: datetime
    expires_at: datetime


class TeamTokenIn(Input):
    name: str = Field(max_length=100)
    role: RoleName = "editor"
    scopes: list[Literal["read", "write", "train", "manage"]] | None = Field(
        None, description="All that the role can fill, when left out."
    )
    expires_at: datetime | None = Field(None, description="Never, when left out; not after the calling token's end.")


class TeamTokenOut(Schema):
    id: UUID
    name: str
    prefix: str
    user: PersonOut
    role: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class NewTokenOut(TeamTokenOut):
    key: str = Field(description="Shown this once.")


class AuditEventOut(Schema):
    id: int
    at: datetime
    who: str
    action: str
    object_kind: str
    object_id: str
    object_label: str
    detail: dict[str, Any]


class AuditOut(Schema):
    items: list[AuditEventOut]
    next: str | None = Field(None, description="Send it as `cursor` for older events; null at the end.")
