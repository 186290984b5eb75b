"""Every WebSocket by every caller: strangers hear nothing, and whoever loses their right loses the socket."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from access_table import Caller, Entry, Verdict, verdict
from access_walk import address
from access_world import MARKER, PEOPLE, World, build
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings
from django.db import connection
from table_of_sockets import SOCKETS

from config.asgi import application
from jobs.consumers import NOT_FOUND, JobConsumer
from workspaces.models import Membership, User

pytestmark = pytest.mark.django_db(transaction=True)

BY_ROUTE = {entry.route: entry for entry in SOCKETS}
OURS = b"http://testserver"
MEMBERS = [caller for caller in PEOPLE if caller.role is not None]


@pytest.fixture
def world(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(JobConsumer, "check_interval_s", 0.05)
    # The sockets' threads keep no connection that would outlive the test.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    return build()


class Socket(ApplicationCommunicator):
    """The browser's end of a socket, with this caller's session."""

    def __init__(self, world: World, entry: Entry, caller: Caller, origin: bytes = OURS) -> None:
        headers = [(b"host", b"testserver"), (b"origin", origin)]
        if key := world.keys.get(caller.name):
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode()))
        path = address(entry, world)
        scope = {"type": "websocket", "path": path, "query_string": b"", "subprotocols": [], "headers": headers}
        super().__init__(application, scope)

    async def open(self) -> dict[str, Any]:
        """The first thing said after the socket was accepted, or how it was refused."""
        await self.send_input({"type": "websocket.connect"})
        said: dict[str, Any] = await self.receive_output(5)
        return said if said["type"] != "websocket.accept" else await self.receive_output(5)

    async def ending(self) -> dict[str, Any]:
        """The close of a socket, whatever is said before it."""
        while (said := await self.receive_output(5))["type"] != "websocket.close":
            pass
        await self.leave()
        return dict(said)

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)


def sockets() -> set[str]:
    """The addresses of all WebSockets, below whatever stands before them."""
    inner: Any = application.application_mapping["websocket"]
    while not isinstance(inner, URLRouter):
        inner = inner.application if hasattr(inner, "application") else inner.inner
    return {str(route.pattern) for route in inner.routes}


def test_every_socket_is_in_the_table():
    assert sockets() == set(BY_ROUTE)


async def test_only_those_who_may_look_are_let_in(world: World):
    wrong = []
    for entry, caller in product(SOCKETS, PEOPLE):
        socket = Socket(world, entry, caller)
        said = await socket.open()
        await socket.leave()
        let_in = said["type"] == "websocket.send"
        if let_in != (verdict(entry, "GET", caller) is Verdict.ALLOWED):
            wrong.append(f"{entry.route} answers {caller.name} with {said}")
        if not let_in and (said.get("code") != NOT_FOUND or MARKER in str(said)):
            wrong.append(f"{entry.route} turns {caller.name} away with {said}")
    assert not wrong, "\n".join(wrong)


def _removed(user: User) -> None:
    Membership.objects.filter(user=user).delete()


def _disabled(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _new_password(user: User) -> None:
    user.set_password("another four words here")
    user.save()


LOSSES: dict[str, Callable[[User], None]] = {"viewer": _removed, "editor": _disabled, "admin": _new_password}


async def test_whoever_loses_the_right_loses_the_socket_and_nobody_else_does(world: World):
    for entry in SOCKETS:
        open_ones = {caller.name: Socket(world, entry, caller) for caller in MEMBERS}
        for socket in open_ones.values():
            assert (await socket.open())["type"] == "websocket.send"
        for name, lose in LOSSES.items():
            user = await User.objects.aget(name=f"{name} {MARKER}")
            await sync_to_async(lose)(user)
            assert (await open_ones.pop(name).ending())["code"] == NOT_FOUND
        for socket in open_ones.values():
            assert await socket.receive_nothing(0.2)
            await socket.leave()


async def test_a_page_of_another_site_opens_no_socket(world: World):
    for entry in SOCKETS:
        socket = Socket(world, entry, MEMBERS[-1], origin=b"https://evil.example")
        assert (await socket.open())["type"] == "websocket.close"


async def test_where_two_factors_are_asked_for_only_who_has_them_listens(world: World, settings: Any):
    settings.REQUIRE_TWO_FACTORS = True
    for entry in SOCKETS:
        for caller in MEMBERS:
            socket = Socket(world, entry, caller)
            assert ((await socket.open())["type"] == "websocket.send") is caller.owns, caller.name
            await socket.leave()
