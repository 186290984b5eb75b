"""People with tokens, and a server that really runs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_failures_are_remembered() -> Iterator[None]:
    from django.core.cache import cache

    cache.clear()
    yield
    cache.clear()


def _caller(person: Any) -> Any:
    from rest_callers import Caller, key_of

    return Caller(key_of(person))


@pytest.fixture
def as_alice(alice: Any) -> Any:
    return _caller(alice)


@pytest.fixture
def as_bob(bob: Any) -> Any:
    return _caller(bob)


@pytest.fixture
def as_carol(carol: Any) -> Any:
    return _caller(carol)


@pytest.fixture
def as_mallory(mallory: Any) -> Any:
    return _caller(mallory)


@pytest.fixture
def server(transactional_db: None, settings: Any) -> Iterator[str]:
    """The address of a uvicorn with the whole site, on the database of the test."""
    import uvicorn
    from django.db import connections

    # A connection that outlives its request would keep the test's database from being emptied.
    connections.databases["default"]["CONN_MAX_AGE"] = 0
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings.PUBLIC_URL = address
    config = uvicorn.Config("config.asgi:application", log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not running.started:
        assert thread.is_alive() and time.monotonic() < deadline, "uvicorn did not start"
        thread.join(0.02)
    yield address
    running.should_exit = True
    thread.join(15)
    assert not thread.is_alive()
