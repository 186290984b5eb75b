"""The live socket: only for those who may see the job, hints merged, closed when rights or session are gone."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import connection
from django.test import Client

from config.asgi import application
from jobs.consumers import NOT_FOUND, JobConsumer, session_user
from jobs.hints import group_of
from workspaces import closing, membership, people
from workspaces.models import Membership, Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch):
    monkeypatch.setattr(JobConsumer, "check_interval_s", 0.05)
    # The sockets' threads keep no connection that would outlive the test.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)


class Socket(ApplicationCommunicator):
    """A browser's end of the socket. (The one of channels.testing needs another server to be imported.)"""

    def __init__(self, job, *, origin: bytes = b"http://testserver", session: str | None = None) -> None:
        headers = [(b"host", b"testserver"), (b"origin", origin)]
        if session is not None:
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
        scope = {"type": "websocket", "path": f"/ws/jobs/{job.pk}/", "query_string": b"", "subprotocols": []}
        super().__init__(application, scope | {"headers": headers})

    async def connect(self) -> bool:
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(5))["type"] == "websocket.accept"

    async def tell(self, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        await self.send_input({"type": "websocket.receive", "text": text})

    async def hear(self) -> Any:
        return json.loads((await self.receive_output(5))["text"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)

    async def closed_with(self) -> int:
        while True:
            message = await self.receive_output(5)
            if message["type"] == "websocket.close":
                return message["code"]


@sync_to_async
def session_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


async def open_socket(job, user=None) -> Socket:
    """An accepted socket; signed in as ``user`` by a session cookie, which ``socket.client`` holds."""
    client = await session_of(user) if user is not None else Client()
    cookie = client.cookies.get(settings.SESSION_COOKIE_NAME)
    socket = Socket(job, session=cookie.value if cookie else None)
    socket.client = client
    assert await socket.connect()
    return socket


async def hint(job, cursor: str) -> None:
    await get_channel_layer().group_send(group_of(job.pk), {"type": "hint", "cursor": cursor})


async def test_members_join_and_get_hints(job, alice, bob, carol):
    for who in (alice, bob, carol):
        socket = await open_socket(job, who)
        assert await socket.hear() == {"type": "joined"}
        await hint(job, "1:7")
        assert await socket.hear() == {"type": "hint", "cursor": "1:7"}
        await socket.leave()


async def test_a_stranger_is_turned_away_and_hears_nothing(job, mallory):
    socket = await open_socket(job, mallory)
    await hint(job, "1:7")
    assert await socket.closed_with() == NOT_FOUND


async def test_nobody_is_turned_away(job):
    assert await (await open_socket(job)).closed_with() == NOT_FOUND


async def test_another_origin_is_refused(job, alice):
    client = await session_of(alice)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert not await Socket(job, origin=b"https://evil.example", session=session).connect()


async def test_it_answers_pings_and_nothing_else(job, alice):
    socket = await open_socket(job, alice)
    await socket.hear()
    await socket.tell("no json")
    await socket.tell(["ping"])
    await socket.tell({"type": "cancel"})
    await socket.tell({"type": "ping"})
    assert await socket.hear() == {"type": "pong"}
    await socket.leave()


async def test_a_burst_becomes_few_hints_and_the_last_cursor_arrives(job, alice):
    socket = await open_socket(job, alice)
    await socket.hear()
    began = time.monotonic()
    for number in range(1, 201):
        await hint(job, f"1:{number}")
    heard = []
    while not heard or heard[-1] != "1:200":
        heard.append((await socket.hear())["cursor"])
    most = (time.monotonic() - began) / JobConsumer.hint_interval_s + 2
    assert len(heard) <= most, heard
    assert heard == sorted(heard, key=lambda cursor: int(cursor[2:]))
    await socket.leave()


async def test_a_removed_member_loses_the_socket(job, bob):
    socket = await open_socket(job, bob)
    await socket.hear()
    await sync_to_async(Membership.objects.filter(user=bob).delete)()
    assert await socket.closed_with() == NOT_FOUND


async def test_signing_out_closes_the_socket(job, alice):
    socket = await open_socket(job, alice)
    await socket.hear()
    await sync_to_async(socket.client.logout)()
    assert await socket.closed_with() == NOT_FOUND


async def test_a_new_password_closes_the_socket(job, alice):
    socket = await open_socket(job, alice)
    await socket.hear()

    def change() -> None:
        alice.set_password("another password of four words")
        alice.save()

    await sync_to_async(change)()
    assert await socket.closed_with() == NOT_FOUND


async def test_a_disabled_person_loses_the_socket(job, alice):
    socket = await open_socket(job, alice)
    await socket.hear()
    alice.is_active = False
    await sync_to_async(alice.save)()
    assert await socket.closed_with() == NOT_FOUND


@pytest.mark.parametrize("how", ["removed", "left", "off", "workspace deleted"])
async def test_a_change_of_rights_closes_the_socket_at_once(job, workspace, alice, bob, how, monkeypatch):
    # The look at rights by the clock is too far off to be what closes it.
    monkeypatch.setattr(JobConsumer, "check_interval_s", 3600)
    change = {
        "removed": lambda: membership.member_remove(workspace=workspace, user_id=bob.pk, actor=alice),
        "left": lambda: membership.workspace_leave(workspace=workspace, actor=bob),
        "off": lambda: people.person_deactivate(user=bob, actor=None),
        "workspace deleted": lambda: closing.workspace_close(
            workspace=workspace, typed_name=workspace.name, actor=alice
        ),
    }[how]
    socket = await open_socket(job, bob)
    await socket.hear()
    await sync_to_async(change)()
    assert await socket.closed_with() == NOT_FOUND


async def test_a_smaller_role_that_still_may_look_keeps_the_socket(job, workspace, alice, bob, monkeypatch):
    monkeypatch.setattr(JobConsumer, "check_interval_s", 3600)
    socket = await open_socket(job, bob)
    await socket.hear()
    lower = sync_to_async(membership.member_role_set)
    await lower(workspace=workspace, user_id=bob.pk, role=Role.VIEWER, actor=alice)
    await socket.tell({"type": "ping"})
    assert await socket.hear() == {"type": "pong"}
    await hint(job, "1:7")
    assert await socket.hear() == {"type": "hint", "cursor": "1:7"}
    await socket.leave()


async def test_a_forged_session_is_nobody(job, alice):
    client = Client()

    def forge() -> str:
        session = client.session  # one that names a person, but not with that person's password
        session[SESSION_KEY] = str(alice.pk)
        session.save()
        return session.session_key

    socket = Socket(job, session=await sync_to_async(forge)())
    assert await socket.connect()
    assert await socket.closed_with() == NOT_FOUND


async def test_an_open_socket_stays_open_while_rights_last(job, alice, monkeypatch):
    checked = []
    monkeypatch.setattr("jobs.consumers.session_user", lambda key: checked.append(key) or session_user(key))
    socket = await open_socket(job, alice)
    await socket.hear()
    deadline = time.monotonic() + 5
    while len(checked) < 4 and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert len(checked) >= 4
    await hint(job, "1:1")
    assert (await socket.hear())["cursor"] == "1:1"
    await socket.leave()
