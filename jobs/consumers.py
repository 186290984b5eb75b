"""The live socket of a job page: it only hints that there is something new; the page pulls it by cursor."""

from __future__ import annotations

import asyncio
import contextlib
import time
from importlib import import_module
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from jobs.hints import group_of
from jobs.models import Job
from workspaces import access, live
from workspaces.models import User
from workspaces.sign_in.middleware import factor_missing

# What is foreign, gone or signed out does not exist: as 404 is for pages.
NOT_FOUND = 4404


class JobConsumer(AsyncJsonWebsocketConsumer):
    """Sends ``joined`` once it is in the job's group, then ``hint`` with the newest cursor, and answers ``ping``.

    Hints are merged, so that a page gets at most two a second however fast a job writes. Rights and session are looked
    at again and again while the socket is open.
    """

    hint_interval_s = 0.5
    check_interval_s = 20.0

    async def connect(self) -> None:
        self.job_id: UUID = self.scope["url_route"]["kwargs"]["job_id"]
        self.session_key: str | None = getattr(self.scope.get("session"), "session_key", None)
        self.last_sent = float("-inf")
        self.pending: dict[str, Any] | None = None
        self.sender: asyncio.Task[None] | None = None
        self.watcher: asyncio.Task[None] | None = None
        self.person: str | None = None
        await self.accept()
        # Joined before the first look, so that no change of rights falls between the two.
        await self._join_person()
        if not await self._allowed():
            await self.close(code=NOT_FOUND)
            return
        await self.channel_layer.group_add(group_of(self.job_id), self.channel_name)
        await self.send_json({"type": "joined"})
        self.watcher = asyncio.create_task(self._keep_checking())

    async def disconnect(self, code: int) -> None:
        for task in (self.sender, self.watcher):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self.channel_layer.group_discard(group_of(self.job_id), self.channel_name)
        if self.person is not None:
            await self.channel_layer.group_discard(self.person, self.channel_name)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if isinstance(content, dict) and content.get("type") == "ping":
            await self.send_json({"type": "pong"})

    @classmethod
    async def decode_json(cls, text_data: str) -> Any:
        """What is not JSON is nothing this socket answers; it is no reason to raise."""
        try:
            return await super().decode_json(text_data)
        except ValueError:
            return None

    async def hint(self, event: dict[str, Any]) -> None:
        """A message of the job's group."""
        self.pending = {"type": "hint", "cursor": event.get("cursor", "")}
        if self.sender is None or self.sender.done():
            self.sender = asyncio.create_task(self._send_pending())

    async def access_changed(self, event: dict[str, Any]) -> None:
        """A message to the person: rights, or the session itself, may have ended."""
        if not await self._allowed():
            await self.close(code=NOT_FOUND)

    async def _join_person(self) -> None:
        user = await database_sync_to_async(session_user)(self.session_key)
        if user is not None:
            self.person = live.group_of(user.pk)
            await self.channel_layer.group_add(self.person, self.channel_name)

    async def _send_pending(self) -> None:
        while self.pending is not None:
            wait = self.last_sent + self.hint_interval_s - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            message, self.pending = self.pending, None
            self.last_sent = time.monotonic()
            await self.send_json(message)

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(self.check_interval_s)
            if not await self._allowed():
                await self.close(code=NOT_FOUND)
                return

    @database_sync_to_async
    def _allowed(self) -> bool:
        user = session_user(self.session_key)
        return user is not None and access.visible(Job.objects.all(), user).filter(pk=self.job_id).exists()


def session_user(session_key: str | None) -> User | None:
    """The person whose session this is, read afresh; None once they signed out, were removed, or changed password."""
    if not session_key:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    known = store.load()
    if not known.get(SESSION_KEY) or known.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = User.objects.filter(pk=known[SESSION_KEY], is_active=True).first()
    if user is None or not constant_time_compare(known.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    return None if factor_missing(known, user) else user
